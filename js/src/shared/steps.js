// Ranges that PyTorch's and Paddle's profilers draw around steps: tables count all of them as one. Twin of labels/names.py.
const MARK = /^(Profiler?Step)#/;

/**
 * The name under which tables count a range: that of all steps for the range of one.
 * @param {string} name
 */
export const mergedName = (name) => {
  const mark = MARK.exec(name);
  return mark ? `${mark[1]}*` : name;
};

/**
 * Under which code each name is counted: its own, but of ranges around steps that of the first.
 * @param {string[]} names
 */
export function mergedSteps(names) {
  /** @type {Map<string, number>} */
  const first = new Map();
  return Int32Array.from(names, (name, code) => {
    const merged = mergedName(name);
    if (merged === name) return code;
    if (!first.has(merged)) first.set(merged, code);
    return first.get(merged) ?? code;
  });
}
