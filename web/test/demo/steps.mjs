// What visitors of the demo page do and see.

/** Waits until the map is drawn and the shipped truth is verified. */
export async function ready(page) {
  await page.waitForFunction(() => {
    const told = (id) => document.getElementById(id).textContent;
    return /projection are plain/.test(told('map-words')) && /truth|Not verified/.test(told('verified'));
  }, null, { timeout: 120_000 });
}

/** The neighbours that the page lists. */
export function shown(page) {
  return page.locator('#results button').evaluateAll((buttons) =>
    buttons.map((button) => ({ name: button.querySelector('b').textContent, distance: Number(button.querySelector('data').value) })));
}

/** How many colours the map has, and which share of it is drawn. */
export function drawn(page) {
  return page.locator('#map').evaluate((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const pixels = new Uint32Array(data.buffer);
    return { colors: new Set(pixels).size, share: pixels.reduce((sum, pixel) => sum + (pixel === 0 ? 0 : 1), 0) / pixels.length };
  });
}

/** A .npy file. */
export function array(descr, shape, bytes, isFortran = false) {
  const dictionary = `{'descr': '${descr}', 'fortran_order': ${isFortran ? 'True' : 'False'}, 'shape': (${shape.join(', ')}${shape.length === 1 ? ',' : ''}), }`;
  const header = `${dictionary.padEnd(117)}\n`;
  const start = Uint8Array.of(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8);
  return new Uint8Array(Buffer.concat([start, Buffer.from(header), bytes]));
}

/** Drops a file on the page. */
export async function drop(page, name, bytes) {
  await page.evaluate(async ([name, text]) => {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([bytes], name));
    for (const kind of ['dragenter', 'dragover', 'drop']) {
      document.body.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
    }
  }, [name, Buffer.from(bytes).toString('base64')]);
}
