// Regular expressions in time that is linear in the text, as RE2's: all places of the expression at which a match may
// stand are followed at once, so that no pattern can freeze the page. Without regard to case; ^ and $ are ends of lines.
import {PatternParser} from './pattern_parser.js';

const MOST_PLACES = 20000;

/**
 * @typedef {import('./pattern_parser.js').Node} Node
 *
 * One place of the compiled expression; numbers are other places.
 * @typedef {{kind: 'end'}
 *   | {kind: 'one', accepts: import('./pattern_parser.js').Accepts, next: number}
 *   | {kind: 'at', holds: import('./pattern_parser.js').Assertion, next: number}
 *   | {kind: 'fork', next: number, other: number}} Place
 */

/** A compiled expression. */
export class Pattern {
  /** @type {Place[]} */ places = [];

  /** @param {string} source */
  constructor(source) {
    this.source = source;
    const parsed = new PatternParser(source).parsed();
    this.start = this.emit(parsed, this.place({kind: 'end'}));
  }

  /**
   * Whether it is found in a text.
   * @param {string} text
   */
  test(text) {
    /** @type {Set<number>} */
    let now = new Set();
    for (let at = 0; at <= text.length; at++) {
      if (this.reach(now, this.start, text, at)) return true;
      /** @type {Set<number>} */
      const next = new Set();
      for (const number of now) {
        const place = this.places[number];
        if (place.kind === 'one' && at < text.length && place.accepts(text[at]) && this.reach(next, place.next, text, at + 1)) return true;
      }
      now = next;
    }
    return false;
  }

  /**
   * Add a place and all that follow it without a character; whether the end is among them.
   * @param {Set<number>} set
   * @param {number} start
   * @param {string} text
   * @param {number} at
   */
  reach(set, start, text, at) {
    const waiting = [start];
    for (let number = waiting.pop(); number !== undefined; number = waiting.pop()) {
      if (set.has(number)) continue;
      set.add(number);
      const place = this.places[number];
      if (place.kind === 'end') return true;
      if (place.kind === 'fork') waiting.push(place.next, place.other);
      if (place.kind === 'at' && place.holds(text, at)) waiting.push(place.next);
    }
    return false;
  }

  /** @param {Place} place */
  place(place) {
    if (this.places.length > MOST_PLACES) throw new Error('it is too large');
    return this.places.push(place) - 1;
  }

  /**
   * Add the places of a node that lead to `next`; gives the first.
   * @param {Node} node
   * @param {number} next
   * @returns {number}
   */
  emit(node, next) {
    switch (node.kind) {
      case 'one':
        return this.place({kind: 'one', accepts: node.accepts, next});
      case 'at':
        return this.place({kind: 'at', holds: node.holds, next});
      case 'all':
        return node.parts.reduceRight((then, part) => this.emit(part, then), next);
      case 'any':
        return node.ways
          .map((way) => this.emit(way, next))
          .reduceRight((then, first) => this.place({kind: 'fork', next: first, other: then}));
      case 'times':
        return this.emitTimes(node.part, node.least, node.most, next);
    }
  }

  /**
   * @param {Node} part
   * @param {number} least
   * @param {number} most
   * @param {number} next
   */
  emitTimes(part, least, most, next) {
    let first = next;
    if (most === Infinity) {
      const loop = {kind: /** @type {const} */ ('fork'), next, other: next};
      first = this.place(loop);
      loop.next = this.emit(part, first);
    } else for (let i = least; i < most; i++) first = this.place({kind: 'fork', next: this.emit(part, first), other: next});
    for (let i = 0; i < least; i++) first = this.emit(part, first);
    return first;
  }
}
