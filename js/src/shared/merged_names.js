// Names that tables count as one: those of ranges that PyTorch's and Paddle's profilers draw around steps, and those of a
// method of several objects, which differ in an address. Twin of labels/names.py.
const MARK = /^(Profiler?Step)#/,
  ADDRESS = / at 0x[0-9a-fA-F]+(?=>)/g,
  WRITTEN_ADDRESS = /(?: 0x[0-9a-fA-F]+)+$/;

/**
 * The name under which tables count a slice: without the number of a step and without an address.
 * @param {string} name
 */
export const mergedName = (name) => {
  const mark = MARK.exec(name);
  return mark ? `${mark[1]}*` : name.replace(ADDRESS, '');
};

/**
 * What to write for a name under which others are counted too.
 * @param {string} merged
 * @param {string} label what is written for the name itself
 */
export const mergedLabel = (merged, label) => (merged.endsWith('>') ? label.replace(WRITTEN_ADDRESS, '') : merged);

/**
 * Under which code each name is counted: that of the first with the same merged name.
 * @param {string[]} names
 */
export function mergedNames(names) {
  /** @type {Map<string, number>} */
  const first = new Map();
  return Int32Array.from(names, (name, code) => {
    const merged = mergedName(name);
    if (!first.has(merged)) first.set(merged, code);
    return first.get(merged) ?? code;
  });
}
