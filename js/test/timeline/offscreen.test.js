import {expect, test} from 'vitest';

import {Lanes} from '../../src/timeline/lanes.js';
import {offscreen} from '../../src/timeline/offscreen.js';

const track = (number, group, more = {}) => ({track: number, name: `track ${number}`, group, kind: 'thread', row: 4 * number, depths: 4, outer_rows: 0, folded: 0, quiet: false, rank: 0, busy: 0, marks: 0, ...more});
const lanesOf = (tracks, more = {}) => new Lanes({tracks, counters: [], stepColumns: {step: [], ts: [], dur: []}, ...more});

/** Rows, counts before, in and after, end before, start after. */
function answerOf(entries, more = {}) {
  const column = (k) => entries.map((entry) => entry[k] ?? -1);
  const count = entries.reduce((sum, [, before, inside, after]) => sum + before + inside + after, 0);
  return {count, ...more, data: {row: column(0), before: column(1), inside: column(2), after: column(3), end_before: column(4), start_after: column(5)}};
}
const sight = (top, bottom, time = [100, 200]) => ({top, bottom, time});
const said = (answer, lanes, seen) => Object.fromEntries(offscreen(answer, lanes, seen).indicators.map(({side, parts}) => [side, parts.join('')]));
const targets = (answer, lanes, seen) => Object.fromEntries(offscreen(answer, lanes, seen).indicators.map(({side, row, time}) => [side, [row, time]]));

test('nothing is said of what is in sight', () => {
  const lanes = lanesOf([track(0, 'host')]),
    answer = answerOf([[0, 0, 7, 0], [3, 0, 1, 0]]);
  expect(offscreen(answer, lanes, sight(0, 4))).toEqual({inSight: 8, indicators: []});
});

test('above and below, with their tracks; the nearest that shows something in this time is the target', () => {
  const lanes = lanesOf([0, 1, 2, 3].map((k) => track(k, 'host')));
  const answer = answerOf([[0, 0, 1, 0], [2, 3, 0, 0, 40], [5, 0, 2, 0], [11, 0, 0, 1_000, -1, 900], [12, 0, 5, 0], [13, 0, 5, 0]]);
  expect(said(answer, lanes, sight(4, 8))).toEqual({above: '4 selected slices on 1 track above', below: '1,010 selected slices on 2 tracks below'});
  expect(targets(answer, lanes, sight(4, 8))).toEqual({above: [0, null], below: [12, null]});
  const [one] = offscreen(answerOf([[0, 0, 1, 0]]), lanes, sight(4, 8)).indicators;
  expect(one.parts.join('')).toBe('1 selected slice on 1 track above');
});

test('a lane of which less than half shows is out of sight', () => {
  const lanes = lanesOf([track(0, 'host')]),
    answer = answerOf([[0, 0, 1, 0], [3, 0, 1, 0]]);
  expect(said(answer, lanes, sight(0.4, 3.4))).toEqual({below: '1 selected slice on 1 track below'});
  expect(said(answer, lanes, sight(0.6, 3.6))).toEqual({above: '1 selected slice on 1 track above'});
});

test('before and after are of the rows in sight, and unknown for another time', () => {
  const lanes = lanesOf([0, 1].map((k) => track(k, 'host'))),
    answer = answerOf([[0, 5, 0, 1, 60, 300], [1, 2, 1, 3, 90, 210], [6, 9, 0, 0, 99]]);
  expect(said(answer, lanes, sight(0, 4))).toEqual({before: '7 selected slices before', after: '4 selected slices after', below: '9 selected slices on 1 track below'});
  expect(targets(answer, lanes, sight(0, 4))).toEqual({before: [1, 90], after: [1, 210], below: [6, 99]});
  expect(Object.keys(said(answer, lanes, sight(0, 4, null)))).toEqual(['below']);
});

test('a row that has nothing in this time is shown with the nearer of its slices', () => {
  const lanes = lanesOf([0, 1].map((k) => track(k, 'host')));
  expect(targets(answerOf([[6, 1, 0, 1, 80, 210]]), lanes, sight(0, 4)).below).toEqual([6, 210]);
  expect(targets(answerOf([[6, 1, 0, 1, 95, 210]]), lanes, sight(0, 4)).below).toEqual([6, 95]);
});

test('folded groups and tracks, and hidden tracks', () => {
  const tracks = [track(0, 'host'), track(1, 'host', {outer_rows: 2}), track(2, 'GPU 0'), track(3, 'GPU 0'), track(4, 'GPU 1'), track(5, 'host')],
    lanes = lanesOf(tracks),
    answer = answerOf([[1, 0, 4, 0], [4, 0, 1, 0], [8, 0, 10, 0], [13, 0, 20, 0], [17, 0, 30, 0], [20, 2, 0, 0, 5]]);
  expect(said(answer, lanes, sight(0, 30))).toEqual({before: '2 selected slices before', folded: '1 selected slice in 1 folded track'});
  lanes.fold(tracks[0]);
  expect(said(answer, lanes, sight(0, 30)).folded).toBe('5 selected slices in 2 folded tracks');
  lanes.close('GPU 0');
  lanes.close('GPU 1');
  lanes.hide(5);
  expect(said(answer, lanes, sight(0, 30))).toEqual({folded: '67 selected slices in 2 folded groups, 2 folded tracks and 1 hidden track'});
  expect(targets(answer, lanes, sight(0, 30)).folded).toEqual([1, null]);
  lanes.pin([2, 5]);
  expect(said(answer, lanes, sight(0, 30))).toEqual({before: '2 selected slices before', folded: '55 selected slices in 2 folded groups and 2 folded tracks'});
  lanes.setFilter('track 0');
  expect(said(answer, lanes, sight(0, 30)).folded).toBe('55 selected slices in 1 folded track and 3 hidden tracks');
});

test('pinned tracks are in sight', () => {
  const lanes = lanesOf([0, 1, 2, 3].map((k) => track(k, 'host'))),
    answer = answerOf([[12, 0, 5, 0]]);
  expect(said(answer, lanes, sight(0, 8))).toEqual({below: '5 selected slices on 1 track below'});
  lanes.pin([3]);
  expect(offscreen(answer, lanes, sight(6, 14))).toEqual({inSight: 5, indicators: []});
});

test('a report that holds sums of a part gives no numbers', () => {
  const lanes = lanesOf([track(0, 'host'), track(1, 'host')]);
  lanes.fold(track(0, 'host'));
  expect(said(answerOf([[1, 0, 3, 0], [0, 1, 0, 0, 50], [4, 0, 1, 0]], {estimate: true}), lanes, sight(0, 1))).toEqual({
    folded: 'selected slices in folded tracks',
    before: 'selected slices before',
    below: 'selected slices below',
  });
});

test('every selected slice is counted once, whatever is folded, hidden, pinned or scrolled', () => {
  let seed = 7;
  const below = (n) => (seed = (seed * 48271) % 2147483647) % n;
  for (let round = 0; round < 300; round++) {
    const tracks = Array.from({length: 1 + below(12)}, (_, k) => track(k, `group ${below(4)}`, {depths: 1 + below(4), outer_rows: below(2), quiet: !below(5)})),
      lanes = lanesOf(tracks);
    for (const one of tracks) {
      if (!below(4)) lanes.fold(one);
      if (!below(6)) lanes.hide(one.track);
    }
    if (!below(2)) lanes.close(`group ${below(4)}`);
    if (!below(2)) lanes.pin([below(12), below(12)].filter((key, k, all) => all.indexOf(key) === k));
    if (!below(5)) lanes.setFilter('track 1');
    const rows = tracks.flatMap(({row, depths}) => Array.from({length: depths}, (_, d) => row + d)).filter(() => below(2)),
      answer = answerOf(rows.map((row) => [row, below(3), below(3), below(3), 50, 300])),
      top = below(20) / 2,
      {inSight, indicators} = offscreen(answer, lanes, sight(top, top + lanes.room()));
    expect(indicators.reduce((sum, {count}) => sum + count, inSight)).toBe(answer.count);
  }
});
