// Density of some rows in a report: twin of service/detail/density.py. What is in the file as sums only comes from its cells.

const MOST_CELLS = 65536;

/**
 * The nearest whole nanosecond, as NumPy's rint: parts of one would light a bin in which the kernel sees no time.
 * @param {number} ns
 */
const wholeNs = (ns) => {
  const nearest = Math.round(ns);
  return nearest - ns === 0.5 && nearest % 2 ? nearest - 1 : nearest;
};

/**
 * @param {ReportColumns} columns
 * @param {ReportData} given
 * @param {import('./columns.js').RowIndex} index
 * @param {(tint: Tint, i: number) => number} tintOf
 * @param {import('./residual/aggregates.js').ResidualAggregates | null} left
 */
export function createLocalBins(columns, given, index, tintOf, left) {
  const [first, last] = [given.meta.span[0], Math.max(given.meta.span[1], 1)];

  /**
   * Bins as wide as pixels or, where the cells of what was left out are wider, the cells. `drawn` (positions) are drawn
   * one by one: in bins wider than pixels they are not counted again.
   * @param {number[]} rows
   * @param {number} a
   * @param {number} b
   * @param {number} wanted
   */
  function place(rows, a, b, wanted) {
    // only what lies in the recording, with its share of the pixels
    const asked = b - a;
    a = Math.min(Math.max(a, first), last);
    b = Math.max(Math.min(b, last), a + 1);
    wanted = Math.max(1, Math.ceil((wanted * (b - a)) / asked));
    const most = Math.max(1, Math.floor(MOST_CELLS / Math.max(rows.length, 1)) - 2);
    let width = Math.max((b - a) / Math.min(wanted, most), 1),
      origin = Math.floor(a / width) * width,
      whole = false;
    if (left && left.cell > width && rows.some((row) => left.among(row, a, b))) {
      width = left.cell;
      origin = left.origin + Math.floor((a - left.origin) / width) * width;
      whole = true;
    }
    return {origin, width, n: Math.max(1, Math.ceil((b - origin) / width)), whole};
  }

  /**
   * @param {number[]} rows
   * @param {number} a
   * @param {number} b
   * @param {number} wanted
   * @param {Mask} mask
   * @param {CrumbMask} crumbMask
   * @param {Tint} tint
   * @param {Set<number> | null} drawn
   */
  return function bins(rows, a, b, wanted, mask, crumbMask, tint, drawn = null) {
    const {origin, width, n, whole} = place(rows, a, b, wanted),
      sums = emptySums(n * rows.length, Boolean(left)),
      edges = Float64Array.from({length: n + 1}, (_, k) => wholeNs(origin + k * width));
    rows.forEach((row, slot) => {
      const [from, stop] = index.stretch(row, edges[0], edges[n]);
      for (let p = from; p < stop; p++) if (!(whole && drawn?.has(p))) addSlice(sums, p, slot * n, edges, width, mask);
      left?.spread(row, origin, width, n, crumbMask, (k, ns, selected, slices, p) => {
        const cell = slot * n + k;
        sums.busy[cell] += ns;
        sums.lit[cell] += selected;
        sums.touches[cell] += slices;
        if (ns + slices > sums.most[cell]) {
          sums.most[cell] = ns + slices;
          sums.crumb[cell] = p;
        }
      });
    });
    /** @type {Pick<DensityPlace, 'mode' | 'bins' | 'bin_start' | 'bin_ns'>} */
    const where = {mode: 'dense', bins: n, bin_start: origin, bin_ns: width};
    return {where: whole ? {...where, sums: true} : where, out: cellsOf(sums, width, mask, tint)};
  };

  /**
   * Add a slice to the bins that it touches.
   * @param {Sums} sums
   * @param {number} p its position
   * @param {number} base first cell of its row
   * @param {Float64Array} edges of the bins
   * @param {number} width
   * @param {Mask} mask
   */
  function addSlice({busy, lit, touches, longest}, p, base, edges, width, mask) {
    const i = index.order[p],
      s = index.start[p],
      e = index.end[p],
      last = edges.length - 2;
    let k = Math.min(last, Math.max(0, Math.floor((s - edges[0]) / width)));
    while (k > 0 && edges[k] > s) k--;
    while (k < last && edges[k + 1] <= s) k++;
    do {
      const cell = base + k,
        part = Math.max(0, Math.min(e, edges[k + 1]) - Math.max(s, edges[k]));
      busy[cell] += part;
      if (!mask || mask[i]) lit[cell] += part;
      touches[cell]++;
      if (longest[cell] < 0 || e - s > columns.dur[longest[cell]] - index.shorter(longest[cell])) longest[cell] = i;
    } while (++k <= last && edges[k] < e);
  }

  /**
   * The sums as bytes and codes.
   * @param {Sums} sums
   * @param {number} width
   * @param {Mask} mask
   * @param {Tint} tint
   * @returns {DensityColumns}
   */
  function cellsOf({busy, lit, touches, longest, crumb}, width, mask, tint) {
    const cells = busy.length,
      out = {
        busy: new Uint8Array(cells),
        bright: new Uint8Array(cells),
        count: new Uint32Array(cells),
        dname: new Uint32Array(cells),
        dtint: new Uint8Array(cells),
      };
    for (let c = 0; c < cells; c++) {
      const sums = left && crumb[c] >= 0 ? left : null;
      if (!touches[c] && !sums) continue;
      out.count[c] = Math.max(1, Math.round(touches[c]));
      out.busy[c] = Math.min(255, Math.max(1, Math.ceil((busy[c] / width) * 255)));
      out.bright[c] = 255;
      if (mask) {
        const instants = longest[c] >= 0 ? mask[longest[c]] : 1;
        out.bright[c] = Math.min(255, Math.ceil((busy[c] > 0 ? lit[c] / busy[c] : instants) * 255));
      }
      // a slice that is in the file is longer than those that are not
      const isSlice = longest[c] >= 0;
      out.dname[c] = Math.max(isSlice ? columns.name[longest[c]] : (sums?.name(crumb[c]) ?? 0), 0);
      out.dtint[c] = isSlice ? tintOf(tint, longest[c]) : (sums?.tintOf(tint, crumb[c]) ?? 0);
    }
    return out;
  }
}

/**
 * Sums of cells: ns, selected ns, slices, and which slice or crumb is the longest.
 * @typedef {ReturnType<typeof emptySums>} Sums
 */

/**
 * @param {number} cells
 * @param {boolean} withCrumbs
 */
function emptySums(cells, withCrumbs) {
  const crumbs = withCrumbs ? cells : 0;
  return {
    busy: new Float64Array(cells),
    lit: new Float64Array(cells),
    touches: new Float64Array(cells),
    longest: new Int32Array(cells).fill(-1),
    most: new Float64Array(crumbs),
    crumb: new Int32Array(crumbs).fill(-1),
  };
}
