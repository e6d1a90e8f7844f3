import {expect, test} from 'vitest';

import {drawnSpans} from '../../src/charts/account_spans.js';
import {chosenSpan} from '../../src/page/navigation.js';
import {columnsOf} from '../../src/shared/packing.js';
import {cellText, sortedRows} from '../../src/tabs/table.js';
import {hiddenFrames} from '../../src/timeline/all_frames.js';
import {mix, parseColour, resourceColours, textOn} from '../../src/timeline/colours.js';
import {stairs, valueOf} from '../../src/timeline/curves.js';
import {sliceAt} from '../../src/timeline/hit.js';
import {Lanes} from '../../src/timeline/lanes.js';
import {binsAtPixels} from '../../src/timeline/painter.js';

const track = (number, group, more = {}) => ({track: number, name: `track ${number}`, group, kind: 'thread', row: 4 * number, depths: 2, outer_rows: 0, folded: 0, quiet: false, rank: 0, busy: 0, ...more});
const metaOf = (tracks, more = {}) => ({tracks, unfolded: [], counters: [], stepColumns: {step: [], ts: [], dur: []}, ...more});
const texts = (lanes) => lanes.all().map((lane) => lane.text ?? lane.row ?? lane.counter?.name ?? lane.kind);

test('lanes: steps, groups, a row each level, counters at the end', () => {
  const lanes = new Lanes(metaOf([track(0, 'host'), track(1, 'GPU', {depths: 1})], {stepColumns: {step: [3]}, counters: [{track: 9, name: 'load', group: 'GPU', unit: '1'}]}));
  expect(texts(lanes)).toEqual(['steps', 'host', 0, 1, 'GPU', 4, 'counters', 'load', 'load']);
  lanes.fold(track(0, 'host'));
  lanes.close('GPU');
  expect(texts(lanes)).toEqual(['steps', 'host', 0, 'GPU', 'counters', 'load', 'load']);
  expect(lanes.placeOfRow(4)).toBe(-1);
  expect(lanes.reveal(4)).toBe(true);
  expect(lanes.placeOfRow(4)).toBe(4);
  expect(lanes.reveal(4)).toBe(false);
});

test('lanes: a track moves within its group, hides, and is found by name', () => {
  const tracks = [track(0, 'host'), track(1, 'host'), track(2, 'host')],
    lanes = new Lanes(metaOf(tracks));
  lanes.move(tracks[2], -1);
  expect(texts(lanes)).toEqual([0, 1, 8, 9, 4, 5]);
  lanes.hide(0);
  lanes.setFilter(' TRACK 1');
  expect(texts(lanes)).toEqual([4, 5]);
  expect(lanes.hiddenCount()).toBe(1);
  lanes.showAll();
  expect(lanes.count()).toBe(6);
});

test('lanes: several ranks show a line for each thread', () => {
  const lanes = new Lanes(metaOf([track(0, 'rank 0', {depths: 5}), track(5, 'rank 1', {rank: 1, depths: 5})]));
  expect(texts(lanes)).toEqual(['rank 0', 0, 'rank 1', 20]);
});

test('lanes: frames around everything hide until all are asked for', () => {
  const one = track(0, 'host', {depths: 6, outer_rows: 4}),
    lanes = new Lanes(metaOf([one]));
  expect(texts(lanes)).toEqual([4, 5]);
  lanes.showAllFrames(true);
  expect(texts(lanes)).toEqual([0, 1, 2, 3, 4, 5]);
  lanes.fold(one);
  lanes.showAllFrames(false);
  expect(texts(lanes)).toEqual([4]);
  expect(lanes.reveal(5)).toBe(true);
  expect(texts(lanes)).toEqual([4, 5]);
});

test('lanes: with all frames, tracks have the rows of their whole stacks, in the order and with the folds that they have', () => {
  const tracks = [track(0, 'host', {depths: 3, folded: 1}), track(1, 'host', {depths: 4, folded: 2})],
    unfolded = [track(0, 'host', {row: 0, depths: 3}), track(1, 'host', {row: 3, depths: 4})],
    lanes = new Lanes(metaOf(tracks, {unfolded}));
  expect(texts(lanes)).toEqual([0, 1, 4, 5]);
  lanes.move(tracks[1], -1);
  lanes.pin([0]);
  lanes.showAllFrames(true);
  expect(texts(lanes)).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect(lanes.trackOf(3)).toBe(unfolded[1]);
  expect(hiddenFrames(lanes.meta, unfolded[1])).toBe(2);
  lanes.showAllFrames(false);
  expect(texts(lanes)).toEqual([0, 1, 4, 5]);
});

test('lanes: quiet threads begin folded, many of them under a heading that is closed', () => {
  const quiet = (number) => track(number, 'host', {quiet: true, depths: 3}),
    few = new Lanes(metaOf([track(0, 'host'), quiet(1), quiet(2)])),
    many = new Lanes(metaOf([track(0, 'host'), quiet(1), quiet(2), quiet(3)]));
  expect(texts(few)).toEqual([0, 1, 4, 8]);
  expect(texts(many)).toEqual(['host', 0, 1, 'host · quiet threads']);
  expect(many.reveal(8)).toBe(true);
  expect(texts(many)).toEqual(['host', 0, 1, 'host · quiet threads', 4, 8, 9, 10, 12]);
});

test('lanes: pinned tracks stand above everything, in their order, whatever hides them', () => {
  const tracks = [track(0, 'host'), track(1, 'host'), track(2, 'GPU', {depths: 1})],
    lanes = new Lanes(metaOf(tracks, {stepColumns: {step: [3]}, counters: [{track: 9, name: 'load', group: 'GPU', unit: '1'}]}));
  lanes.pin([9, 2, 77]);
  expect(texts(lanes)).toEqual(['load', 'load', 8, 'steps', 'host', 0, 1, 4, 5]);
  expect([lanes.pinnedLanes, lanes.placeOfSteps(), lanes.placeOfRow(8)]).toEqual([3, 3, 2]);
  lanes.setFilter('no such track');
  lanes.close('GPU');
  lanes.hide(2);
  expect(texts(lanes)).toEqual(['load', 'load', 8, 'steps']);
  lanes.showAll();
  lanes.pin(lanes.pinnedWith(0));
  lanes.fold(tracks[0]);
  expect(texts(lanes)).toEqual(['load', 'load', 8, 0, 'steps', 'host', 4, 5]);
  expect(lanes.pinned).toEqual([9, 2, 77, 0]);
  expect(lanes.pinnedWith(2)).toEqual([9, 77, 0]);
  expect(lanes.pinnedMoved(0, -1)).toEqual([9, 2, 0, 77]);
  expect(lanes.pinnedMoved(0, 1)).toEqual(lanes.pinned);
  expect(lanes.pinnedMoved(9, -1)).toEqual(lanes.pinned);
});

test('lanes: pinned ones stay where they are while others scroll, and leave room for them', () => {
  const lanes = new Lanes(metaOf(Array.from({length: 20}, (_, k) => track(k, 'host', {depths: 1}))));
  expect([lanes.stuck(), lanes.yOf(0, 5), lanes.at(5, 5).row]).toEqual([0, 0, 20]);
  lanes.pin([19, 18]);
  expect(lanes.stuck()).toBe(2);
  // scrolled by five lanes: the pinned ones are in the first two of those that are seen
  expect([0, 1, 2, 7].map((place) => lanes.yOf(place, 5))).toEqual([5, 6, 2, 7]);
  expect([5, 6.5, 7].map((y) => lanes.at(y, 5).row)).toEqual([76, 72, 20]);
  expect(lanes.placesInSight(5, 18)).toEqual([0, 1, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]);
  expect(lanes.placesInSight(0, 3, 1)).toEqual([0, 1, 2, 3]);
  lanes.pin(Array.from({length: 20}, (_, k) => 19 - k));
  expect([lanes.pinnedLanes, lanes.room(), lanes.stuck()]).toEqual([20, 13, 10]);
});

test('lanes: two of ten thousand tracks in a thousand groups are pinned', () => {
  const tracks = Array.from({length: 10_000}, (_, k) => track(k, `rank ${k % 1000}`)),
    lanes = new Lanes(metaOf(tracks));
  lanes.pin([9_999, 5_000]);
  expect(lanes.all()[0].track.track).toBe(9_999);
  expect(lanes.count()).toBe(21_000);
});

test('overview: a colour for devices and one for threads, work before annotations, grey where nothing is selected', () => {
  const meta = {tracks: [{kind: 'stream'}, {kind: 'thread'}], colours: {resource: {device: '#EE8866', host: '#77AADD'}}},
    ctx = {meta, theme: {dim: '#dddddd'}, palettes: {neutral: 9}, colourOfName: (code) => code},
    // rows: the stream's annotations (neutral), its kernels, the thread
    data = {busy: Uint8Array.of(255, 0, 255, 9, 200, 200), bright: Uint8Array.of(0, 0, 255, 0, 0, 255), dname: Uint32Array.of(9, 9, 1, 1, 2, 2)},
    answer = {data, bins: 2, tracks: [0, 0, 1], busy_rows: 3},
    css = (pixel) => `#${[pixel & 255, (pixel >>> 8) & 255, (pixel >>> 16) & 255].map((v) => v.toString(16).padStart(2, '0')).join('')}`;
  expect(Array.from(resourceColours({...answer, filtered: false}, ctx), css)).toEqual(['#ee8866', '#ee8866', '#77aadd', '#77aadd']);
  expect(Array.from(resourceColours({...answer, filtered: true}, ctx), css)).toEqual(['#ee8866', '#dddddd', '#dddddd', '#77aadd']);
});

test('every pixel shows the bins that it covers', () => {
  const density = {cells: Uint32Array.of(0xff000001, 0x80000002, 0, 0), bins: 4, slots: 1, start: 0, ns: 10},
    geometry = {left: 0, width: 2, x: (t) => t / 20},
    {first, wide, pixels} = binsAtPixels(density, {start: 0, end: 40}, geometry);
  expect([first, wide]).toEqual([0, 2]);
  expect(pixels[0] & 0xffffff).toBe(1); // the colour of the fullest
  expect(pixels[0] >>> 24).toBe(Math.floor((0xff + 0x80) / 2));
  expect(pixels[1]).toBe(0);
  expect(binsAtPixels(density, {start: 100, end: 140}, {left: 0, width: 2, x: (t) => (t - 100) / 20})).toBeNull();
});

test('a point finds the innermost slice of its slot, or one near it', () => {
  const data = {x0: [0, 2, 50], dur: [20, 5, 0], slot: [0, 0, 1]};
  expect(sliceAt(data, 0, 3, 0)).toBe(1);
  expect(sliceAt(data, 0, 10, 0)).toBe(0);
  expect(sliceAt(data, 1, 51, 2)).toBe(2);
  expect(sliceAt(data, 1, 60, 2)).toBe(-1);
});

test('a curve holds its value until the next one', () => {
  const curve = {x: [0, 10], y: [1, 4]};
  expect([-1, 0, 9, 10].map((t) => valueOf(curve, t))).toEqual([null, 1, 1, 4]);
  expect(stairs(curve.x, curve.y)).toEqual({x: Float64Array.of(0, 10, 10), y: Float64Array.of(1, 1, 4)});
});

test('what is too thin to be drawn does not interrupt a part', () => {
  const stretches = [
    {from: 0, to: 50, part: 0, steps: 2},
    {from: 50, to: 51, part: 1, steps: 0},
    {from: 51, to: 90, part: 0, steps: 1},
  ];
  expect(drawnSpans(stretches, 2)).toEqual([{from: 0, to: 90, part: 0, steps: 3}]);
  expect(drawnSpans(stretches, 0.5)).toHaveLength(3);
  expect(stretches[0].to).toBe(50);
});

test('the selected time, or that of the selected steps', () => {
  const steps = {step: [3, 4], ts: [0, 100], dur: [90, 50]};
  expect(chosenSpan({window: [5, 9], step: [3]}, steps)).toEqual([5, 9]);
  expect(chosenSpan({step: [4, 3, 77]}, steps)).toEqual([0, 150]);
  expect(chosenSpan({step: [77]}, steps)).toBeNull();
});

test('tables of tabs: order, units, columns by place', () => {
  expect(sortedRows(3, [2, NaN, 5], true)).toEqual([1, 2, 0]);
  expect(sortedRows(3, [1, 1, 0], false)).toEqual([2, 0, 1]);
  expect(sortedRows(3, ['b', 'a', 'c'], false)).toEqual([1, 0, 2]);
  expect(sortedRows(2, null, true)).toEqual([0, 1]);
  expect([cellText(2.5e9, 'flops/s'), cellText(NaN, 'ns'), cellText(1e6, 'count')]).toEqual(['2.5 GFLOP/s', '–', '1,000,000']);
  expect(columnsOf({'0.ns': [1], '10.ns': [2]}, 0)).toEqual({ns: [1]});
});

test('colours', () => {
  expect(['#ff8000', 'rgb(1, 2, 3)', '#abc', 'nonsense'].map(parseColour)).toEqual([0xff8000, 0x010203, 0xaabbcc, 0xdddddd]);
  expect(mix(0x000000, 0xffffff, 0.5)).toBe(0x808080);
  expect([textOn(0xffffff), textOn(0)]).toEqual(['#1a1a1a', '#f5f5f5']);
});
