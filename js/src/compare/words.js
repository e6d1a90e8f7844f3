// What a selection of the comparison is on each side, and the other way round: twin of comparison/selected.py.

/** @type {readonly (keyof SelectionPatch)[]} */
export const LINKED = ['window', 'name', 'category', 'phase', 'line'];

/** Names and lines of the comparison, and what each recording calls them. */
export class Counterparts {
  /** @param {CounterpartWords} words */
  constructor(words) {
    this.words = words;
    const inverse = (/** @type {Record<string, string[]>} */ of) =>
      new Map(Object.entries(of).flatMap(([key, raws]) => raws.map((raw) => /** @type {[string, string]} */ ([raw, key]))));
    this.keys = {name: words.name.map(inverse), line: words.line.map(inverse)};
  }

  /**
   * The clauses of a side under a selection of the comparison.
   * @param {SelectionState} state
   * @param {0 | 1} side
   * @param {number} start of the aligned step
   * @returns {SelectionPatch}
   */
  ofSide({window: span, name, category, phase, line}, side, start) {
    const {words} = this;
    /** @param {'name' | 'line'} dimension */
    const named = (dimension, /** @type {string[] | null | undefined} */ values) =>
      values ? sorted(values.flatMap((value) => words[dimension][side][value] ?? [value])) : null;
    return {
      window: span ? [span[0] + start, span[1] + start] : null,
      name: named('name', name),
      category: category ?? null,
      phase: phase ?? null,
      line: named('line', line),
    };
  }

  /**
   * What a change of a side's clauses is in the comparison; what only that side has stays apart.
   * @param {SelectionPatch} patch
   * @param {0 | 1} side
   * @param {number} start
   * @returns {{linked: SelectionPatch, own: SelectionPatch}}
   */
  ofComparison(patch, side, start) {
    const entries = Object.entries(patch),
      isLinked = (/** @type {string} */ key) => LINKED.includes(/** @type {keyof SelectionPatch} */ (key));
    /** @type {SelectionPatch} */
    const linked = Object.fromEntries(entries.filter(([key]) => isLinked(key)));
    if (linked.window) linked.window = [linked.window[0] - start, linked.window[1] - start];
    for (const dimension of /** @type {const} */ (['name', 'line'])) {
      const values = linked[dimension];
      if (values) linked[dimension] = sorted(values.map((value) => this.keys[dimension][side].get(value) ?? value));
    }
    return {linked, own: Object.fromEntries(entries.filter(([key]) => !isLinked(key)))};
  }
}

/** @param {string[]} values */
const sorted = (values) => [...new Set(values)].sort();
