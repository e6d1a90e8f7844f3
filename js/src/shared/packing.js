// Columns of an answer: buffers named and typed by content.columns.
const ARRAYS = {f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, u2: Uint16Array, u1: Uint8Array};

function unpack({content, buffers}) {
  const out = {};
  (content.columns ?? []).forEach(([name, type], i) => {
    const Kind = ARRAYS[type],
      part = buffers[i];
    let {buffer, byteOffset, byteLength} = part;
    if (byteOffset % Kind.BYTES_PER_ELEMENT) {
      // some front ends slice a message without alignment
      buffer = buffer.slice(byteOffset, byteOffset + byteLength);
      byteOffset = 0;
    }
    out[name] = new Kind(buffer, byteOffset, byteLength / Kind.BYTES_PER_ELEMENT);
  });
  return out;
}
