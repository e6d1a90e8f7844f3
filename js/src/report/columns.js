// Columns of a report: positions by row and start, masks, curves. Twins of views/lod and views/matching.py.
const MOST_CELLS = 65536;

function lowerBound(values, lo, hi, x) {
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (values[mid] < x) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

// Slices in trace order (by start) and, per row, the positions that lod.rows.RowIndex has.
function createIndex(columns, trackOfRow) {
  const n = columns.row.length,
    rows = trackOfRow.length,
    pointer = new Uint32Array(rows + 1),
    order = new Uint32Array(n);
  for (let i = 0; i < n; i++) pointer[columns.row[i] + 1]++;
  for (let r = 0; r < rows; r++) pointer[r + 1] += pointer[r];
  const next = pointer.slice();
  for (let i = 0; i < n; i++) order[next[columns.row[i]]++] = i;
  const start = new Float64Array(n),
    end = new Float64Array(n);
  for (let p = 0; p < n; p++) {
    start[p] = columns.ts[order[p]];
    end[p] = start[p] + columns.dur[order[p]];
  }
  function stretch(row, a, b) {
    const lo = pointer[row],
      hi = pointer[row + 1];
    let first = lowerBound(start, lo, hi, a);
    const stop = lowerBound(start, first, hi, b);
    if (first > lo && end[first - 1] > a) first--;
    return [first, Math.max(stop, first)];
  }
  // as RowIndex.covered: what lies inside a slice may outlast it
  function covered(row, a, b) {
    if (row < 0) return 0;
    let sum = 0;
    const extent = (p) => end[p] + (columns.extent ? columns.extent[order[p]] : 0),
      lo = pointer[row],
      stop = lowerBound(start, lo, pointer[row + 1], b);
    let p = lowerBound(start, lo, stop, a);
    if (p > lo && extent(p - 1) > a) p--;
    for (; p < stop; p++) sum += Math.max(0, Math.min(extent(p), b) - Math.max(start[p], a));
    return sum;
  }
  if (!columns.inside) {
    // time of the slices inside: where it is not in the file, the rows below tell
    columns.inside = new Float64Array(n);
    for (let row = 0; row + 1 < rows; row++) {
      if (trackOfRow[row + 1] !== trackOfRow[row]) continue;
      for (let p = pointer[row]; p < pointer[row + 1]; p++) columns.inside[order[p]] = covered(row + 1, start[p], end[p]);
    }
  }
  return {order, start, end, pointer, stretch, covered};
}

function createMatching(columns, given) {
  let key = '',
    mask = null;
  return function (state, without) {
    // Uint8Array in trace order, or null for all
    const clauses = ['name', 'category', 'track', 'step', 'phase', 'rank']
      .filter((d) => state[d] != null && !without.includes(d))
      .map((d) => [d, state[d]]);
    if (!clauses.length) return null;
    const wanted = JSON.stringify(clauses);
    if (wanted === key) return mask;
    const tests = clauses.map(([dimension, values]) => {
      if (dimension === 'rank') {
        const tracks = new Set(given.meta.tracks.filter((t) => values.includes(t.rank)).map((t) => t.track));
        return (i) => tracks.has(given.trackOfRow[columns.row[i]]);
      }
      const known = {name: given.names, category: given.meta.categories, phase: given.meta.phases}[dimension];
      const codes = new Set(known ? known.map((text, i) => (values.includes(text) ? i : -1)).filter((i) => i >= 0) : values);
      if (dimension === 'track') return (i) => codes.has(given.trackOfRow[columns.row[i]]);
      return (i) => codes.has(columns[dimension][i]);
    });
    mask = new Uint8Array(columns.row.length);
    for (let i = 0; i < mask.length; i++) mask[i] = tests.every((test) => test(i)) ? 1 : 0;
    key = wanted;
    return mask;
  };
}

const reply = (content, columns = {}) => {
  const names = {
    Float64Array: 'f8',
    Float32Array: 'f4',
    Int32Array: 'i4',
    Uint32Array: 'u4',
    Uint16Array: 'u2',
    Uint8Array: 'u1',
  };
  const entries = Object.entries(columns);
  return {
    content: {...content, columns: entries.map(([name, values]) => [name, names[values.constructor.name]])},
    buffers: entries.map(([, values]) => new DataView(values.buffer, values.byteOffset, values.byteLength)),
  };
};

// As lod.curve.StepCurve.sample: with more changes than pixels, every pixel keeps its minimum, its maximum and its last.
function sampleCurve(ts, values, a, b, px) {
  const n = ts.length,
    i = Math.max(lowerBound(ts, 0, n, a + 1e-9) - 1, 0),
    stop = lowerBound(ts, 0, n, b),
    x = [],
    y = [];
  if (stop <= i) return [new Float64Array(0), new Float64Array(0)];
  if (stop - i <= 4 * px)
    for (let k = i; k < stop; k++) {
      x.push(Math.max(ts[k], a));
      y.push(values[k]);
    }
  else {
    let column = -1;
    for (let k = i; k < stop; k++) {
      const c = Math.min(px - 1, Math.max(0, Math.floor(((ts[k] - a) / (b - a)) * px))),
        last = y.length;
      if (c !== column) {
        const at = Math.max(ts[k], a);
        x.push(at, at, at);
        y.push(values[k], values[k], values[k]);
        column = c;
      } else {
        y[last - 3] = Math.min(y[last - 3], values[k]);
        y[last - 2] = Math.max(y[last - 2], values[k]);
        y[last - 1] = values[k];
      }
    }
  }
  x.push(Math.max(b, x[x.length - 1]));
  y.push(values[stop - 1]);
  return [Float64Array.from(x), Float64Array.from(y)];
}
