import {describe, expect, test} from 'vitest';

import {fittedLabels, hasBoxes} from '../../src/tabs/fitted_labels.js';

// 6 px a character, as createFitting measures and cuts
const fit = (/** @type {string} */ text, /** @type {number} */ room) => {
  const most = Math.floor(room / 6);
  return text.length <= most ? text : most > 2 ? `${text.slice(0, most - 1)}…` : '';
};
const frame = (/** @type {number} */ scale, /** @type {number} */ start = 0) => ({
  x: {compute: (/** @type {number} */ value) => 10 + (value - start) * scale},
  y: {compute: (/** @type {number} */ value) => 20 * value},
  from: 10,
  to: 510,
});
const data = {left: [0, 0, 30, 45], right: [50, 30, 45, 50], middle: [0.5, 1.5, 1.5, 1.5], label: ['forward', 'convolution_backward', 'mm', 'batch_norm']};

describe('labels of boxes', () => {
  test('each lies in its box, whole where it fits, cut where it does not, left out where nothing would be read', () => {
    const wide = fittedLabels(data, frame(10), fit);
    expect(wide.map(({text}) => text)).toEqual(['forward', 'convolution_backward', 'mm', 'batch_…']);
    const narrow = fittedLabels(data, frame(3), fit);
    expect(narrow.map(({text}) => text)).toEqual(['forward', 'convolution_b…', 'mm']);
    for (const {x, text, right} of [...wide, ...narrow]) expect(x + 6 * text.length).toBeLessThanOrEqual(right - 3);
  });

  test('of a box that begins before the view the part in view has the label', () => {
    const [first, second] = fittedLabels(data, frame(40, 25), fit);
    expect([first.x, first.left, first.right]).toEqual([13, 10, 510]);
    expect([second.text, second.x, second.right]).toEqual(['convolution_backward', 13, 210]);
    expect(fittedLabels(data, frame(40, 60), fit)).toEqual([]);
  });

  test('labels of points and bars are not for boxes', () => {
    const boxes = {...data, top: [1, 2, 2, 2], bottom: [0, 1, 1, 1]};
    expect(hasBoxes(boxes)).toBe(true);
    expect(hasBoxes({x: [1], y: [2], label: ['mm']})).toBe(false);
    for (const name of Object.keys(boxes)) expect(hasBoxes({...boxes, [name]: undefined})).toBe(false);
  });
});
