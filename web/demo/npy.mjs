// Vectors in files of numpy.

/** The value of a finite 16-bit float. */
function valueOf(bits) {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
  return bits >> 15 ? -size : size;
}

/** The vectors of a .npy file of 16-bit floats, `[rows, dim]`: as 32-bit floats, and their bits. */
export function vectorsOf(bytes) {
  const start = 10 + bytes[8] + 256 * bytes[9];
  const [, rows, dim] = /\((\d+), (\d+)\)/.exec(new TextDecoder().decode(bytes.subarray(10, start))).map(Number);
  const bits = new Uint16Array(bytes.buffer, start, rows * dim);
  const vectors = new Float32Array(bits.length);
  bits.forEach((half, at) => (vectors[at] = valueOf(half)));
  return { rows, dim, vectors, bits };
}
