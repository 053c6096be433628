// Where things are.

import { fileURLToPath } from 'node:url';

/** The folder `web`. */
export const WEB = fileURLToPath(new URL('..', import.meta.url));

/** The shipped vectors. */
export const DATA = fileURLToPath(new URL('../../cli/data', import.meta.url));
