// Where server and page are one machine, an answer of less than one segment (64 KiB on the loopback) waits about 40 ms: the
// server's socket keeps it until the page has acknowledged the message before it, and the page is in no hurry to do so.
// An answer filled up to a segment goes at once. Whether that holds here is measured, and measured again now and then.
const SEGMENT = 66000;
const TRIALS = 4;

/** Make the choice of how far answers are filled up. */
export function createPadding(local = ['localhost', '127.0.0.1', '[::1]'].includes(location.hostname)) {
  /** @type {Record<number, number[]>} */
  const times = {0: [], [SEGMENT]: []};
  let count = 0;
  const least = (/** @type {number} */ pad) => Math.min(...times[pad]),
    other = (/** @type {number} */ pad) => (pad ? 0 : SEGMENT);
  return {
    next() {
      if (!local) return 0;
      count++;
      if (times[0].length < TRIALS || times[SEGMENT].length < TRIALS) return count % 2 ? SEGMENT : 0;
      const best = least(SEGMENT) + 10 < least(0) ? SEGMENT : 0;
      return count % 50 ? best : other(best);
    },
    /**
     * @param {number} pad
     * @param {number} ms
     */
    note(pad, ms) {
      if (!(ms >= 0)) return;
      times[pad].push(ms);
      if (times[pad].length > TRIALS) times[pad].shift();
    },
    times,
  };
}
