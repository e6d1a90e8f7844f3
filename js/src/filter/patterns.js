// Regular expressions in time that is linear in the text, as RE2's: all places of the expression at which a match may
// stand are followed at once, so that no pattern can freeze the page. Without regard to case; ^ and $ are ends of lines.
class Pattern {
  constructor(source) {
    this.source = source;
    this._code = []; // [accepts(character), next] · [null, next, other] · [assertion(text, at), next]
    const parsed = new PatternParser(source).parsed();
    this._start = this._emit(parsed, this._place('end'));
  }
  test(text) {
    let now = new Set();
    for (let at = 0; at <= text.length; at++) {
      if (this._reach(now, this._start, text, at)) return true;
      const next = new Set();
      for (const place of now) {
        const [kind, accepts, to] = this._code[place];
        if (kind === 'one' && at < text.length && accepts(text[at]) && this._reach(next, to, text, at + 1)) return true;
      }
      now = next;
    }
    return false;
  }
  // Adds a place and all that follow it without a character; whether the end is among them.
  _reach(set, start, text, at) {
    const waiting = [start];
    while (waiting.length) {
      const place = waiting.pop();
      if (set.has(place)) continue;
      set.add(place);
      const [kind, what, to] = this._code[place];
      if (kind === 'end') return true;
      if (kind === 'fork') waiting.push(what, to);
      if (kind === 'at' && what(text, at)) waiting.push(to);
    }
    return false;
  }
  _place(...instruction) {
    if (this._code.length > 20000) throw new Error('it is too large');
    return this._code.push(instruction) - 1;
  }
  // Places of a node that lead to `next`; gives the first.
  _emit([kind, ...given], next) {
    if (kind === 'one' || kind === 'at') return this._place(kind, given[0], next);
    if (kind === 'all') return given[0].reduceRight((then, node) => this._emit(node, then), next);
    if (kind === 'any')
      return given[0].map((node) => this._emit(node, next)).reduceRight((then, first) => this._place('fork', first, then));
    const [node, least, most] = given;
    let first = next;
    if (most === Infinity) {
      const loop = this._place('fork', next, next);
      this._code[loop][1] = this._emit(node, loop);
      first = loop;
    } else for (let i = least; i < most; i++) first = this._place('fork', this._emit(node, first), next);
    for (let i = 0; i < least; i++) first = this._emit(node, first);
    return first;
  }
}

const WORD = /[0-9A-Za-z_]/,
  KINDS = {
    d: (c) => c >= '0' && c <= '9',
    w: (c) => WORD.test(c),
    s: (c) => '\t\n\f\r '.includes(c),
  },
  CONTROLS = {t: '\t', n: '\n', r: '\r', f: '\f', v: '\v', a: '\x07'},
  inWord = (text, at) => at >= 0 && at < text.length && WORD.test(text[at]),
  ASSERTIONS = {
    '^': (text, at) => at === 0 || text[at - 1] === '\n',
    $: (text, at) => at === text.length || text[at] === '\n',
    A: (_, at) => at === 0,
    z: (text, at) => at === text.length,
    b: (text, at) => inWord(text, at - 1) !== inWord(text, at),
    B: (text, at) => inWord(text, at - 1) === inWord(text, at),
  };

class PatternParser {
  constructor(source) {
    Object.assign(this, {source, at: 0});
  }
  parsed() {
    const node = this.either(0);
    if (this.at < this.source.length) throw new Error('unexpected )');
    return node;
  }
  get next() {
    return this.source[this.at];
  }
  taken(text) {
    const there = this.source.startsWith(text, this.at);
    if (there) this.at += text.length;
    return there;
  }
  either(depth) {
    if (depth > 500) throw new Error('it is nested too deeply');
    const ways = [];
    do {
      const parts = [];
      while (this.at < this.source.length && this.next !== '|' && this.next !== ')') parts.push(this.repeated(depth));
      ways.push(['all', parts]);
    } while (this.taken('|'));
    return ways.length > 1 ? ['any', ways] : ways[0];
  }
  repeated(depth) {
    let node = this.atom(depth);
    for (let times = 0; ; times++) {
      const counted = /^\{(\d+)(,?)(\d*)\}/.exec(this.source.slice(this.at, this.at + 20));
      let bounds = null;
      if (counted) {
        this.at += counted[0].length;
        const least = Number(counted[1]);
        bounds = [least, counted[3] ? Number(counted[3]) : counted[2] ? Infinity : least];
        if (least > 1000 || (bounds[1] < Infinity && bounds[1] > 1000) || bounds[1] < least) throw new Error('bad repetition');
      } else if (this.taken('*')) bounds = [0, Infinity];
      else if (this.taken('+')) bounds = [1, Infinity];
      else if (this.taken('?')) bounds = [0, 1];
      if (!bounds) return node;
      if (times) throw new Error('nothing to repeat');
      this.taken('?'); // lazy: the same, where only whether it is found matters
      node = ['times', node, ...bounds];
    }
  }
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
    if (c === '.') return ['one', (found) => found !== '\n'];
    if (c === '^' || c === '$') return ['at', ASSERTIONS[c]];
    if (c === '[') return ['one', this.oneOf()];
    if (c === '\\') return this.escaped();
    return ['one', same(c)];
  }
  escaped() {
    const c = this.next;
    if (c !== undefined && 'bBAz'.includes(c)) {
      this.at++;
      return ['at', ASSERTIONS[c]];
    }
    const found = this.character();
    return ['one', typeof found === 'string' ? same(found) : found];
  }
  // Behind a backslash: a character, or which characters are meant.
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
  oneOf() {
    const negated = this.taken('^'),
      tests = [];
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
const same = (c) => {
  const low = c.toLowerCase();
  return (found) => found === c || found.toLowerCase() === low;
};
