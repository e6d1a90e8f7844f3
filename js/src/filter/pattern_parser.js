// The syntax of regular expressions, as far as RE2 and this page know it.

/**
 * @typedef {(character: string) => boolean} Accepts
 * @typedef {(text: string, at: number) => boolean} Assertion
 *
 * @typedef {{kind: 'one', accepts: Accepts}
 *   | {kind: 'at', holds: Assertion}
 *   | {kind: 'all', parts: Node[]}
 *   | {kind: 'any', ways: Node[]}
 *   | {kind: 'times', part: Node, least: number, most: number}} Node
 */

const MOST_TIMES = 1000;
const DEEPEST = 500;
const WORD = /[0-9A-Za-z_]/;
/** @type {Record<string, Accepts>} */
const KINDS = {
  d: (c) => c >= '0' && c <= '9',
  w: (c) => WORD.test(c),
  s: (c) => '\t\n\f\r '.includes(c),
};
/** @type {Record<string, string>} */
const CONTROLS = {t: '\t', n: '\n', r: '\r', f: '\f', v: '\v', a: '\x07'};
const inWord = (/** @type {string} */ text, /** @type {number} */ at) => at >= 0 && at < text.length && WORD.test(text[at]);
/** @type {Record<string, Assertion>} */
const ASSERTIONS = {
  '^': (text, at) => at === 0 || text[at - 1] === '\n',
  $: (text, at) => at === text.length || text[at] === '\n',
  A: (_, at) => at === 0,
  z: (text, at) => at === text.length,
  b: (text, at) => inWord(text, at - 1) !== inWord(text, at),
  B: (text, at) => inWord(text, at - 1) === inWord(text, at),
};

/**
 * The character, upper or lower.
 * @param {string} c
 * @returns {Accepts}
 */
const same = (c) => {
  const low = c.toLowerCase();
  return (found) => found === c || found.toLowerCase() === low;
};

/** Reads an expression from left to right. */
export class PatternParser {
  at = 0;

  /** @param {string} source */
  constructor(source) {
    this.source = source;
  }

  parsed() {
    const node = this.either(0);
    if (this.at < this.source.length) throw new Error('unexpected )');
    return node;
  }

  /** @returns {string | undefined} */
  get next() {
    return this.source[this.at];
  }

  /** @param {string} text */
  taken(text) {
    const there = this.source.startsWith(text, this.at);
    if (there) this.at += text.length;
    return there;
  }

  /**
   * @param {number} depth
   * @returns {Node}
   */
  either(depth) {
    if (depth > DEEPEST) throw new Error('it is nested too deeply');
    /** @type {Node[]} */
    const ways = [];
    do {
      const parts = [];
      while (this.at < this.source.length && this.next !== '|' && this.next !== ')') parts.push(this.repeated(depth));
      ways.push({kind: 'all', parts});
    } while (this.taken('|'));
    return ways.length > 1 ? {kind: 'any', ways} : ways[0];
  }

  /**
   * @param {number} depth
   * @returns {Node}
   */
  repeated(depth) {
    let node = this.atom(depth);
    for (let times = 0; ; times++) {
      const bounds = this.bounds();
      if (!bounds) return node;
      if (times) throw new Error('nothing to repeat');
      this.taken('?'); // lazy: the same, where only whether it is found matters
      node = {kind: 'times', part: node, least: bounds[0], most: bounds[1]};
    }
  }

  /**
   * How often what stands before may come; null where it says nothing.
   * @returns {[number, number] | null}
   */
  bounds() {
    const counted = /^\{(\d+)(,?)(\d*)\}/.exec(this.source.slice(this.at, this.at + 20));
    if (counted) {
      this.at += counted[0].length;
      const least = Number(counted[1]),
        most = counted[3] ? Number(counted[3]) : counted[2] ? Infinity : least;
      if (least > MOST_TIMES || (most < Infinity && most > MOST_TIMES) || most < least) throw new Error('bad repetition');
      return [least, most];
    }
    if (this.taken('*')) return [0, Infinity];
    if (this.taken('+')) return [1, Infinity];
    return this.taken('?') ? [0, 1] : null;
  }

  /**
   * @param {number} depth
   * @returns {Node}
   */
  atom(depth) {
    const c = this.source[this.at++];
    if (c === '(') {
      if (this.taken('?')) {
        const named = /^P?<[A-Za-z_]\w*>/.exec(this.source.slice(this.at));
        if (named) this.at += named[0].length;
        else if (!this.taken(':')) throw new Error('no such group: look-around takes more than linear time');
      }
      const node = this.either(depth + 1);
      if (!this.taken(')')) throw new Error('missing )');
      return node;
    }
    if ('*+?'.includes(c)) throw new Error('nothing to repeat');
    if (c === '.') return {kind: 'one', accepts: (found) => found !== '\n'};
    if (c === '^' || c === '$') return {kind: 'at', holds: ASSERTIONS[c]};
    if (c === '[') return {kind: 'one', accepts: this.oneOf()};
    if (c === '\\') return this.escaped();
    return {kind: 'one', accepts: same(c)};
  }

  /** @returns {Node} */
  escaped() {
    const c = this.next;
    if (c !== undefined && 'bBAz'.includes(c)) {
      this.at++;
      return {kind: 'at', holds: ASSERTIONS[c]};
    }
    const found = this.character();
    return {kind: 'one', accepts: typeof found === 'string' ? same(found) : found};
  }

  /**
   * Behind a backslash: a character, or which characters are meant.
   * @returns {string | Accepts}
   */
  character() {
    const c = this.source[this.at++];
    if (c === undefined) throw new Error('a backslash at the end');
    if ('dws'.includes(c)) return KINDS[c];
    if ('DWS'.includes(c)) return (found) => !KINDS[c.toLowerCase()](found);
    if (c in CONTROLS) return CONTROLS[c];
    const hex = c === 'x' ? /^(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})/.exec(this.source.slice(this.at)) : null;
    if (hex) {
      this.at += hex[0].length;
      return String.fromCodePoint(parseInt(hex[1] ?? hex[2], 16));
    }
    if (/[0-9A-Za-z]/.test(c)) throw new Error(`\\${c} is not known`);
    return c;
  }

  /** @returns {Accepts} */
  oneOf() {
    const negated = this.taken('^');
    /** @type {Accepts[]} */
    const tests = [];
    for (let first = true; first || this.next !== ']'; first = false) {
      if (this.at >= this.source.length) throw new Error('missing ]');
      const from = this.taken('\\') ? this.character() : this.source[this.at++];
      if (typeof from !== 'string') tests.push(from);
      else if (this.next === '-' && this.source[this.at + 1] !== ']' && this.at + 1 < this.source.length) {
        this.at++;
        const to = this.taken('\\') ? this.character() : this.source[this.at++];
        if (typeof to !== 'string' || to < from) throw new Error('bad range of characters');
        tests.push((c) => [c, c.toLowerCase(), c.toUpperCase()].some((one) => one >= from && one <= to));
      } else tests.push(same(from));
    }
    this.at++;
    return (c) => tests.some((test) => test(c)) !== negated;
  }
}
