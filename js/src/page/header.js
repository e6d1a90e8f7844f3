// On top: the headline, and in words what is selected, each clause with its own ×.
import {textElement} from '../shared/elements.js';
import {Roving} from '../shared/roving.js';
import {isPicked, nothingSelected} from '../shared/store.js';
import {formatCount, formatInstant, formatNumbers, formatTime} from '../shared/units.js';
import {becauseIn, claimsIn, headlineOf, piecesOf} from './headline.js';

/** What a replay scales. @type {Dimension[]} */
const SCALED = ['name', 'line', 'phase', 'category'];

/** @typedef {Pick<Context, 'settings' | 'store' | 'whenTold'> & {meta: Pick<Meta, 'tracks'>, showSelection?: () => void, whatIf?: () => void}} HeaderContext */

/**
 * What a link selects, and nothing else.
 * @param {SelectionPatch} select
 */
const whole = (select) => ({...nothingSelected(), ...select});

/**
 * The clauses of a selection in words.
 * @param {SelectionState} state
 * @param {Track[]} tracks
 * @returns {[dimension: Dimension, text: string][]}
 */
export function clausesOf(state, tracks) {
  /** @type {[Dimension, string][]} */
  const out = [],
    {window, name, step, track, rank, group, category, phase, line} = state;
  if (window) {
    const [a, b] = window;
    out.push(['window', `${formatInstant(a, (b - a) / 100, b)} – ${formatInstant(b, (b - a) / 100)} (${formatTime(b - a)})`]);
  }
  if (name) out.push(['name', name.length === 1 ? name[0] : `${name[0]} and ${name.length - 1} more`]);
  if (step) out.push(['step', `step ${formatNumbers(step)}`]);
  if (track) out.push(['track', `track ${track.map((k) => tracks.find((t) => t.track === k)?.name ?? k).join(', ')}`]);
  if (rank) out.push(['rank', `rank ${formatNumbers(rank)}`]);
  if (group) out.push(['group', `process group ${group.join(', ')}`]);
  if (category) out.push(['category', `category ${category.join(', ')}`]);
  if (phase) out.push(['phase', `phase ${phase.join(', ')}`]);
  if (line) out.push(['line', `line ${line.join(', ')}`]);
  return out;
}

/** The headline and the line of the selection. */
export class Header {
  headline = textElement('div', 'nbp-headline', '');
  chips = textElement('span', 'nbp-chips', '');
  totalsText = textElement('span', 'nbp-totals', '');
  clear = textElement('button', 'nbp-clear', 'Clear');
  whatIf = textElement('button', 'nbp-link nbp-what-if-button', 'what if …');
  /** @type {Roving | null} */ roving = null;
  line = textElement('div', 'nbp-selection', '');
  clauses = new Roving(this.line, '.nbp-chip > button, .nbp-what-if-button, .nbp-clear');
  /** @type {ReturnType<typeof becauseIn>} */ reason = null;
  close = () => {};

  /**
   * @param {HeaderContext} ctx
   * @param {HTMLElement} box
   * @param {HTMLElement[]} below
   */
  constructor(ctx, box, ...below) {
    const {settings} = ctx;
    this.ctx = ctx;
    this.tell(settings.verdict || '', settings.headline);
    box.append(this.headline, ...below);
    if (settings.late) this.await();
    box.append(this.selectionLine());
    this.draw();
  }

  /**
   * @param {string} text
   * @param {HeadlinePiece[][]} pieces
   */
  tell(text, pieces) {
    this.reason = becauseIn(pieces);
    this.roving ??= new Roving(this.headline, '.nbp-fold, .nbp-claim');
    this.headline.replaceChildren(...headlineOf(text, pieces, (select) => this.pick(select)));
    this.roving.settle();
    this.mark();
  }

  /** Why a line takes long, with its links; null where the headline does not tell. */
  because() {
    const {reason} = this;
    return reason && {line: reason.line, parts: piecesOf(reason.pieces, (select) => this.pick(select))};
  }

  /** The verdict of a long recording comes later. */
  await() {
    this.headline.setAttribute('role', 'status');
    this.headline.append(textElement('div', 'nbp-verdict nbp-working', 'working out the verdict …'));
    this.close = this.ctx.whenTold?.((text, pieces) => this.tell(text, pieces)) ?? this.close;
  }

  selectionLine() {
    const {line} = this;
    line.setAttribute('role', 'status');
    line.setAttribute('aria-live', 'polite');
    this.clear.title = 'clear the selection (Esc)';
    this.clear.addEventListener('click', () => this.ctx.store.clear('clear'));
    this.whatIf.title = 'how long a step would take if this took less time, or more (I)';
    this.whatIf.addEventListener('click', () => this.ctx.whatIf?.());
    line.append(this.chips, this.totalsText, this.whatIf, this.clear);
    return line;
  }

  /**
   * Select what a link is of, and nothing else; the same again takes it away.
   * @param {SelectionPatch} select
   */
  pick(select) {
    const {store} = this.ctx;
    if (isPicked(store.get(), {...whole(select), focus: store.get().focus})) {
      store.clear('headline');
      return;
    }
    store.set(whole(select), 'headline');
    this.ctx.showSelection?.();
  }

  mark() {
    const state = this.ctx.store.get();
    for (const link of claimsIn(this.headline))
      link.setAttribute('aria-pressed', String(isPicked(state, {...whole(link.nbpSelect), focus: state.focus})));
  }

  draw() {
    this.mark();
    const {store, meta} = this.ctx,
      state = store.get(),
      chips = clausesOf(state, meta.tracks).map(([dimension, text]) => this.chip(dimension, text));
    this.chips.replaceChildren(textElement('span', 'nbp-selection-label', chips.length ? 'Selected' : 'Everything'), ...chips);
    this.whatIf.hidden = !this.ctx.whatIf || !SCALED.some((dimension) => state[dimension]);
    this.clear.disabled = store.isEmpty() && state.focus == null;
    this.clauses.settle();
  }

  /**
   * @param {Dimension} dimension
   * @param {string} words
   */
  chip(dimension, words) {
    const {store} = this.ctx,
      chip = textElement('span', 'nbp-chip', ''),
      text = textElement('span', '', words),
      cross = textElement('button', '', '×'),
      values = /** @type {unknown[]} */ ([]).concat(store.get()[dimension]);
    chip.dataset.dimension = dimension;
    text.title = values.slice(0, 30).join('\n');
    cross.setAttribute('aria-label', `remove ${dimension} from the selection`);
    cross.addEventListener('click', () => store.set({[dimension]: null}, 'chip'));
    chip.append(text, cross);
    return chip;
  }

  /** @param {Pick<TableAnswer, 'count' | 'self_ns' | 'estimate'>} answer */
  totals({count, self_ns: self, estimate}) {
    this.totalsText.textContent = `${estimate ? '≈ ' : ''}${formatCount(count)} ${count === 1 ? 'slice' : 'slices'} · ${formatTime(self)} self time`;
  }
}
