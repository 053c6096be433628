// Two dimensions of many: the vectors' principal directions, by power iteration.

/** Power iteration ends when a round turns the direction by less, or after so many rounds. */
const STILL = 1e-3;
const MOST_ROUNDS = 200;

/** Each vector's place along the two principal directions, `[rows, 2]`. Between two rounds the page draws and hears its visitor, and `idle` is awaited. */
export async function project({ vectors, rows, dim }, idle = () => undefined) {
  const mean = new Float64Array(dim);
  vectors.forEach((value, at) => (mean[at % dim] += value / rows));
  const centred = vectors.map((value, at) => value - mean[at % dim]);
  const places = new Float64Array(rows * 2);
  const directions = [];
  for (let axis = 0; axis < 2; axis++) {
    // Any start serves that is not at a right angle to the direction looked for.
    let direction = unit(mean.map((_, i) => Math.sin(1 + i * (axis + 1.3))));
    let turned = 1;
    for (let round = 0; round < MOST_ROUNDS && turned > STILL; round++) {
      await new Promise((resolve) => setTimeout(resolve));
      await idle();
      const next = new Float64Array(dim);
      for (let row = 0; row < rows; row++) {
        let along = 0;
        for (let i = 0, at = row * dim; i < dim; i++) along += centred[at + i] * direction[i];
        for (let i = 0, at = row * dim; i < dim; i++) next[i] += centred[at + i] * along;
        places[row * 2 + axis] = along;
      }
      for (const known of directions) {
        const shared = dot(next, known);
        next.forEach((x, i) => (next[i] = x - shared * known[i]));
      }
      turned = Math.sqrt(2 - 2 * Math.min(1, dot(unit(next), direction)));
      direction = next;
    }
    directions.push(direction);
  }
  return places;
}

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** Makes a direction's length 1. */
function unit(direction) {
  const length = Math.sqrt(dot(direction, direction));
  direction.forEach((x, i) => (direction[i] = x / length));
  return direction;
}
