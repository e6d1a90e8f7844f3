// One axis of time for both sides: it counts from the start of the aligned steps.
const NARROWEST_NS = 20;

/**
 * A recording on the axis.
 * @typedef {object} OnAxis
 * @property {BokehRange} range in the recording's own time
 * @property {[number, number]} span
 * @property {() => number} start of its aligned step
 */

/** What is in view, of all recordings at once. */
export class SharedAxis {
  /** @type {OnAxis[]} */ sides = [];
  start = 0;
  end = 1;

  /** From the first moment of any recording to the last, counted from the aligned starts. */
  whole() {
    const {sides} = this;
    return [Math.min(...sides.map(({span, start}) => span[0] - start())), Math.max(...sides.map(({span, start}) => span[1] - start()))];
  }

  /**
   * Show a stretch of time in all recordings.
   * @param {number} a
   * @param {number} b
   */
  show(a, b) {
    const [begin, end] = this.whole(),
      most = 1.2 * Math.max(end - begin, NARROWEST_NS),
      width = Math.min(Math.max(b - a, NARROWEST_NS), most),
      margin = 0.1 * width;
    this.start = Math.min(Math.max(a, begin - margin), end + margin - width);
    this.end = this.start + width;
    for (const {range, start} of this.sides) range.setv({start: this.start + start(), end: this.end + start()});
  }

  /**
   * @param {number} factor
   * @param {number} at
   */
  zoom(factor, at) {
    const width = Math.max((this.end - this.start) * factor, NARROWEST_NS),
      share = (at - this.start) / (this.end - this.start);
    this.show(at - share * width, at - share * width + width);
  }
}

/**
 * Put the ticks of a figure's time axis at whole numbers from another instant than 0.
 * @param {BokehObject} ticker
 * @param {() => number} origin
 */
export function countFrom(ticker, origin) {
  const ticks = ticker.get_ticks.bind(ticker);
  ticker.get_ticks = (/** @type {number} */ low, /** @type {number} */ high, /** @type {unknown[]} */ ...more) => {
    const from = origin(),
      {major, minor} = ticks(low - from, high - from, ...more),
      moved = (/** @type {number[]} */ places) => places.map((place) => place + from);
    return {major: moved(major), minor: moved(minor)};
  };
}
