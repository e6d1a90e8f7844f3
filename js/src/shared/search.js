// Binary search.

/**
 * The first place in [lo, hi) whose value is not below x; hi where there is none.
 * @param {ArrayLike<number>} values ascending
 * @param {number} lo
 * @param {number} hi
 * @param {number} x
 */
export function lowerBound(values, lo, hi, x) {
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (values[mid] < x) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}
