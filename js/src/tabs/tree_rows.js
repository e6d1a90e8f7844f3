// Rows of a tree without a page: which are shown, where an arrow leads, and which path through a row is the heaviest.

/**
 * @typedef {{parent: ArrayLike<number>, more: ArrayLike<number>}} TreeColumns
 *
 * @typedef {object} TreeLine
 * @property {number} row the row, or what a line of rows that were left out is below (-1: of roots)
 * @property {boolean} more whether it stands for rows that were left out
 */

const TRUNK = 0.5, // a row is opened where one below it has more than so much of it
  DEEPEST = 12;

/** Which rows of a tree are below which, and which of them are open. */
export class TreeRows {
  /** @type {number[][]} */ below;
  /** @type {number[]} */ roots = [];
  /** @type {Set<number>} */ open = new Set();

  /**
   * @param {TreeColumns} columns
   * @param {number} moreRoots how many roots were left out
   */
  constructor({parent, more}, moreRoots = 0) {
    this.parent = parent;
    this.more = more;
    this.moreRoots = moreRoots;
    this.below = Array.from(parent, () => []);
    for (let i = 0; i < parent.length; i++) (parent[i] < 0 ? this.roots : this.below[parent[i]]).push(i);
  }

  /** @param {number} row */
  canOpen(row) {
    return this.below[row].length > 0 || this.more[row] > 0;
  }

  /** What is shown, from above. */
  lines() {
    /** @type {TreeLine[]} */
    const lines = [];
    /**
     * @param {number[]} rows
     * @param {number} up
     * @param {number} left
     */
    const add = (rows, up, left) => {
      for (const row of rows) {
        lines.push({row, more: false});
        if (this.open.has(row)) add(this.below[row], row, this.more[row]);
      }
      if (left > 0) lines.push({row: up, more: true});
    };
    add(this.roots, -1, this.moreRoots);
    return lines;
  }

  /**
   * Open the heaviest root and what is below it, as long as one row has most of what it is below.
   * @param {ArrayLike<number>} weight
   */
  openTrunk(weight) {
    let at = this.roots[0];
    for (let depth = 0; at !== undefined && this.canOpen(at) && depth < DEEPEST; depth++) {
      this.open.add(at);
      const next = this.heaviest(this.below[at], weight);
      if (next === null || weight[next] <= TRUNK * weight[at]) return;
      at = next;
    }
  }

  /**
   * Open what a row is below.
   * @param {number} row
   */
  openTo(row) {
    for (let at = this.parent[row]; at >= 0; at = this.parent[at]) this.open.add(at);
  }

  /**
   * @param {number[]} rows
   * @param {ArrayLike<number>} weight
   */
  heaviest(rows, weight) {
    let most = null;
    for (const row of rows) if (weight[row] > 0 && (most === null || weight[row] > weight[most])) most = row;
    return most;
  }

  /**
   * From a root through a row to the end of what is heaviest below it.
   * @param {number} row
   * @param {ArrayLike<number>} weight
   */
  pathThrough(row, weight) {
    const path = [row];
    for (let at = this.parent[row]; at >= 0; at = this.parent[at]) path.unshift(at);
    for (let at = this.heaviest(this.below[row], weight); at !== null; at = this.heaviest(this.below[at], weight)) path.push(at);
    return path;
  }

  /**
   * Where the right or the left arrow leads from a row: it opens or closes it, or goes to another.
   * @param {number} row
   * @param {'ArrowRight' | 'ArrowLeft'} key
   * @returns {{open?: boolean, go?: number}}
   */
  arrow(row, key) {
    const isOpen = this.open.has(row);
    if (key === 'ArrowRight') return !this.canOpen(row) ? {} : isOpen ? {go: this.below[row][0] ?? row} : {open: true};
    return isOpen ? {open: false} : this.parent[row] >= 0 ? {go: this.parent[row]} : {};
  }
}
