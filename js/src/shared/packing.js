// Columns of an answer: buffers named and typed by content.columns.

export const ARRAYS = {f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array};

/**
 * Read the columns of an answer.
 * @param {RawAnswer} answer
 */
export function unpack({content, buffers}) {
  /** @type {NumberColumns} */
  const out = {};
  (content.columns ?? []).forEach(([name, type], i) => {
    const Kind = ARRAYS[type],
      part = buffers[i];
    let buffer = /** @type {ArrayBuffer} */ (part.buffer),
      {byteOffset} = part;
    if (byteOffset % Kind.BYTES_PER_ELEMENT) {
      // some front ends slice a message without alignment
      buffer = buffer.slice(byteOffset, byteOffset + part.byteLength);
      byteOffset = 0;
    }
    out[name] = new Kind(buffer, byteOffset, part.byteLength / Kind.BYTES_PER_ELEMENT);
  });
  return out;
}

/**
 * The columns of the part at a place: their names begin with it.
 * @param {NumberColumns} data
 * @param {number} place
 * @returns {NumberColumns}
 */
export function columnsOf(data, place) {
  const start = `${place}.`;
  return Object.fromEntries(
    Object.entries(data ?? {})
      .filter(([key]) => key.startsWith(start))
      .map(([key, values]) => [key.slice(start.length), values]),
  );
}

/**
 * Make an answer of columns, as the kernel would send it.
 * @param {Record<string, unknown>} content
 * @param {NumberColumns} columns
 * @returns {RawAnswer}
 */
export function reply(content, columns = {}) {
  const entries = Object.entries(columns);
  return {
    content: {...content, columns: entries.map(([name, values]) => [name, typeOf(values)])},
    buffers: entries.map(([, values]) => new DataView(values.buffer, values.byteOffset, values.byteLength)),
  };
}

/**
 * @param {NumberArray} values
 * @returns {ColumnType}
 */
function typeOf(values) {
  const types = /** @type {ColumnType[]} */ (Object.keys(ARRAYS));
  return types.find((type) => values instanceof ARRAYS[type]) ?? 'f8';
}
