// The lines about the slice that was clicked: what it took, and what it corresponds to on the other side.
import {factsOf} from '../page/detail.js';
import {textElement} from '../shared/elements.js';
import {formatCount, formatTime} from '../shared/units.js';
import {SIDES} from './side_store.js';

const TIP = 'Click a slice: what it took, and what it corresponds to on the other side. Press ? for all keys.';

/**
 * A slice, and the calls of its name: in its step, and in the aligned step of the other side.
 * @typedef {object} Corresponding
 * @property {0 | 1} side
 * @property {number} dur of the slice
 * @property {[number | null, number | null]} steps null: the whole recording
 * @property {[CallsAnswer, CallsAnswer]} calls
 *
 * @typedef {{label: string, text: string, title: string}} CorrespondingFact
 */

/** @param {number | null} step */
const stepText = (step) => (step === null ? 'the whole recording' : `step ${step}`);

/** @param {number} ns */
const signed = (ns) => (ns ? `${ns < 0 ? '−' : '+'}${formatTime(Math.abs(ns))}` : '±0');

/**
 * What a slice corresponds to on the other side, in words. Slices are matched one by one where there are as many.
 * @param {Corresponding} found
 * @param {[string, string]} names
 * @returns {CorrespondingFact[]}
 */
export function correspondingFacts({side, dur, steps, calls}, names) {
  const other = side ? 0 : 1,
    [mine, theirs] = [calls[side], calls[other]],
    there = `${names[other]}, ${stepText(steps[other])}`,
    many = `${formatCount(mine.slices)} of this name in ${stepText(steps[side])} of ${names[side]}, ${formatCount(theirs.slices)} in ${stepText(steps[other])} of ${names[other]}`;
  /** @type {CorrespondingFact[]} */
  const facts = [];
  if (!theirs.count && !theirs.slices) facts.push({label: 'nothing of this name in', text: there, title: many});
  else if (theirs.slice && mine.slices === theirs.slices) {
    const more = (theirs.slice.dur - dur) * (side ? -1 : 1);
    facts.push({
      label: 'corresponds to',
      text: `${mine.slices > 1 ? `number ${formatCount((mine.place ?? 0) + 1)} of ${formatCount(mine.slices)}` : 'the only one'} in ${there}: ${formatTime(theirs.slice.dur, 4)} (Δ ${signed(more)})`,
      title: `${many}: matched by their order`,
    });
  } else facts.push({label: 'corresponds to', text: `one of ${formatCount(theirs.slices)} in ${there}`, title: `${many}: which is which is not known`});
  for (const i of [0, 1]) {
    const {count, total_ns: total, self_ns: self} = calls[i];
    facts.push({
      label: `${names[i]}, ${stepText(steps[i])}:`,
      text: count ? `${formatCount(count)} × in ${formatTime(total)}` : 'none',
      title: `${formatCount(count)} times, ${formatTime(total)} in all, ${formatTime(self)} of it self time; as p.operators(step=…) and p.kernels(step=…) sum them`,
    });
  }
  facts.push({label: 'Δ', text: signed(calls[1].total_ns - calls[0].total_ns), title: 'of these two alone; the tables have mean steps, and what the noise may be'});
  return facts;
}

/** Shows the slice in focus on either side, and asks for it. */
export class ComparedDetail {
  turn = 0;

  /**
   * @param {import('./page.js').ComparisonPage} page
   * @param {HTMLElement} box
   * @param {import('./words.js').Counterparts} words
   */
  constructor(page, box, words) {
    this.page = page;
    this.words = words;
    this.lines = [textElement('div', 'nbp-detail', ''), textElement('div', 'nbp-detail', '')];
    box.append(...this.lines);
    for (const line of this.lines) line.tabIndex = 0; // it scrolls
    box.setAttribute('role', 'group');
    box.setAttribute('aria-label', 'slice that was clicked, and what it corresponds to');
    this.update();
  }

  /** Ask for the slice in focus, and for what it corresponds to. */
  async update() {
    const {page} = this,
      mine = ++this.turn,
      side = page.sides.findIndex(({store}) => store.get().focus != null);
    if (side < 0) {
      this.draw(null, null);
      return;
    }
    try {
      const slice = await page.sides[side].asker.ask({t: 'detail', id: /** @type {number} */ (page.sides[side].store.get().focus)});
      if (mine !== this.turn) return;
      const found = slice.found ? await this.corresponding(/** @type {0 | 1} */ (side), slice) : null;
      if (mine === this.turn) this.draw(slice.found ? slice : null, found);
    } catch (error) {
      if (mine === this.turn) page.trouble(/** @type {Error} */ (error));
    }
  }

  /**
   * @param {0 | 1} side
   * @param {SliceDetail} slice
   * @returns {Promise<Corresponding>}
   */
  async corresponding(side, {id, name, step, dur, row}) {
    const {words, page} = this,
      other = side ? 0 : 1,
      aligned = page.aligned()[other],
      key = words.ofComparison({name: [name]}, side, 0).linked.name ?? [],
      device = page.sides[side].timeline.lanes.trackOf(row)?.kind === 'stream';
    /** @type {[number | null, number | null]} */
    const steps = [step, step];
    steps[other] = step === null || aligned < 0 ? null : aligned;
    if (steps[other] === null) steps[side] = null; // a whole recording is compared with the whole of another
    const ask = (/** @type {0 | 1} */ i, /** @type {Partial<CallsRequest>} */ which) =>
      page.sides[i].asker.ask({t: 'calls', names: words.ofSide({name: key}, i, 0).name ?? [], step: steps[i], device, ...which});
    const own = await ask(side, {id}),
      theirs = await ask(other, own.place === null ? {} : {place: own.place});
    return {side, dur, steps, calls: side ? [theirs, own] : [own, theirs]};
  }

  /**
   * @param {SliceDetail | null} slice
   * @param {Corresponding | null} found
   */
  draw(slice, found) {
    const {page, lines} = this,
      {names} = page.settings;
    if (!slice || !found) {
      for (const {timeline} of page.sides) timeline.setDetail(null);
      lines[0].replaceChildren(textElement('span', 'nbp-note', TIP));
      lines[1].replaceChildren();
      return;
    }
    const {side, calls} = found,
      name = textElement('strong', '', slice.name),
      swatch = textElement('i', `nbp-swatch nbp-swatch-${SIDES[side]}`, ''),
      matched = calls[0].slices === calls[1].slices ? calls[side ? 0 : 1].slice : null;
    name.title = slice.name;
    lines[0].replaceChildren(swatch, name, textElement('span', 'nbp-fact', names[side]), ...factsOf(slice, page.sides[side].start()));
    lines[1].replaceChildren(
      ...correspondingFacts(found, names).map(({label, text, title}) => {
        const fact = textElement('span', 'nbp-fact', '');
        fact.append(textElement('em', '', label), ` ${text}`);
        fact.title = `${label} ${text}\n${title}`;
        return fact;
      }),
    );
    page.sides.forEach(({timeline}, i) => timeline.setDetail(i === side ? slice : matched));
    if (matched) page.sides[side ? 0 : 1].timeline.showRow(matched.row, matched.id);
    page.counts.detail = (page.counts.detail ?? 0) + 1;
  }

  close() {
    this.turn = -1;
  }
}
