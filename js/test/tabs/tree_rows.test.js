// Rows of a call tree: which are shown, where arrows lead, and the heaviest path through a row.
import {describe, expect, it} from 'vitest';

import {TreeRows} from '../../src/tabs/tree_rows.js';

// 0 fit ─ 1 forward ─ 2 mm, 3 add;  4 backward;  5 load
const parent = [-1, 0, 1, 1, 0, -1],
  more = [0, 0, 0, 2, 0, 0],
  weight = [90, 60, 40, 20, 25, 10];
const shown = (rows) => rows.lines().map(({row, more: left}) => (left ? `… ${row}` : row));

describe('rows of a tree', () => {
  it('shows what is below open rows only, and last what was left out', () => {
    const rows = new TreeRows({parent, more}, 3);
    expect(shown(rows)).toEqual([0, 5, '… -1']);
    rows.open.add(0);
    rows.open.add(3); // below a row that is closed
    expect(shown(rows)).toEqual([0, 1, 4, 5, '… -1']);
    rows.open.add(1);
    expect(shown(rows)).toEqual([0, 1, 2, 3, '… 3', 4, 5, '… -1']);
  });

  it('opens the trunk as far as one row has most of what it is below', () => {
    const rows = new TreeRows({parent, more});
    rows.openTrunk(weight);
    expect([...rows.open]).toEqual([0, 1]);
    const flat = new TreeRows({parent: [-1, 0, 0, 1], more: [0, 0, 0, 0]});
    flat.openTrunk([90, 40, 40, 40]);
    expect([...flat.open]).toEqual([0]);
  });

  it('opens to the right and closes to the left, then goes down and up', () => {
    const rows = new TreeRows({parent, more});
    expect(rows.arrow(0, 'ArrowRight')).toEqual({open: true});
    rows.open.add(0);
    expect(rows.arrow(0, 'ArrowRight')).toEqual({go: 1});
    expect(rows.arrow(0, 'ArrowLeft')).toEqual({open: false});
    expect(rows.arrow(4, 'ArrowLeft')).toEqual({go: 0});
    expect(rows.arrow(4, 'ArrowRight')).toEqual({});
    expect(rows.arrow(5, 'ArrowLeft')).toEqual({});
  });

  it('follows what is heaviest, through a row', () => {
    const rows = new TreeRows({parent, more});
    expect(rows.pathThrough(0, weight)).toEqual([0, 1, 2]);
    expect(rows.pathThrough(3, weight)).toEqual([0, 1, 3]);
    expect(rows.heaviest([], weight)).toBe(null);
    rows.openTo(3);
    expect([...rows.open]).toEqual([1, 0]);
  });

  it('is empty where nothing ran', () => {
    const rows = new TreeRows({parent: [], more: []});
    rows.openTrunk([]);
    expect(rows.lines()).toEqual([]);
  });
});
