// What lies in a report, compressed: base64 of deflated JSON, or of deflated columns shuffled by byte.
import {ARRAYS} from '../../shared/packing.js';

/**
 * @param {string} text base64
 * @returns {Response}
 */
function inflated(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate')));
}

/**
 * Read compressed JSON.
 * @param {string} text
 */
export const inflateJson = async (text) => JSON.parse(await inflated(text).text());

/**
 * Read a column as `deflated` of views/report/html_file.py writes it.
 * @param {PackedColumn} column
 * @returns {Promise<NumberArray>}
 */
export async function inflate({data, type, delta}) {
  const shuffled = new Uint8Array(await inflated(data).arrayBuffer()),
    Kind = ARRAYS[type],
    size = Kind.BYTES_PER_ELEMENT,
    n = shuffled.length / size;
  const bytes = new Uint8Array(shuffled.length);
  for (let j = 0; j < size; j++) for (let i = 0; i < n; i++) bytes[i * size + j] = shuffled[j * n + i];
  const values = new Kind(bytes.buffer);
  if (!delta) return values;
  const out = new Float64Array(n);
  for (let i = 0, sum = 0; i < n; i++) out[i] = sum += values[i];
  return out;
}

/**
 * Read columns by name.
 * @param {Record<string, PackedColumn>} packed
 * @returns {Promise<any>}
 */
export async function inflateAll(packed) {
  const entries = await Promise.all(Object.entries(packed).map(async ([name, one]) => [name, await inflate(one)]));
  return Object.fromEntries(entries);
}
