// The open tab: asked for, shown, and told apart where it is missing or fails.
import {activeElement, element, textElement} from '../shared/elements.js';
import {scrollWithFocus} from '../shared/scrolling.js';
import {ChoiceBar} from './choices.js';
import {createParts} from './parts.js';

const LATE_MS = 150; // after which a word says that something is being worked out
/** @type {Partial<Record<Dimension, string>>} */
const SELECTED = {window: 'time', name: 'name', category: 'category', track: 'track', step: 'step', phase: 'phase', rank: 'rank', line: 'line'};
/** @type {Partial<Record<Dimension, string>>} */
const ALL = {window: 'the whole time', name: 'all names', category: 'all categories', track: 'all tracks', step: 'all steps', phase: 'all phases', rank: 'all ranks', line: 'all lines'};

/** What stands in a tab. */
export class Tab {
  turn = 0;
  late = 0;
  /** @type {ReturnType<typeof createParts> | null} */ shown = null;
  /** @type {'none' | 'absent' | 'asked' | 'shown' | 'failed'} */ state = 'none';
  closed = false;
  followsOwn = false;
  /** @type {TabSettings | null} */ tab = null;
  /** The last answer of each tab, by name and choices. @type {Map<string, PanelAnswer | NoPanel>} */ last = new Map();
  /** @type {Set<Dimension>} */ own = new Set();

  /**
   * @param {Context} ctx
   * @param {HTMLElement} head
   * @param {HTMLElement} body
   * @param {import('./walk.js').Pick} pick
   */
  constructor(ctx, head, body, pick) {
    this.ctx = ctx;
    this.pick = pick;
    this.body = body;
    this.title = element('strong', '', head);
    this.choices = new ChoiceBar(element('span', 'nbp-choices', head), () => this.chose());
    this.scope = element('span', 'nbp-tab-scope', head);
    body.tabIndex = 0;
    body.setAttribute('aria-live', 'off');
    scrollWithFocus(body, () => body.contains(activeElement()));
  }

  clear() {
    this.turn++;
    clearTimeout(this.late);
    this.shown?.dispose();
    this.shown = null;
    this.state = 'none';
    this.body.replaceChildren();
    this.body.removeAttribute('aria-busy');
    this.body.classList.remove('nbp-stale');
  }

  /**
   * Show another tab.
   * @param {TabSettings} tab
   * @param {Set<Dimension>} own dimensions that it has set itself
   */
  show(tab, own) {
    this.tab = tab;
    this.own = own;
    this.title.textContent = tab.title;
    this.scope.textContent = '';
    this.followsOwn = false;
    this.choices.show(tab.missing ? [] : (tab.choices ?? []));
    this.ask();
  }

  /** Ask anew: what another view of the tab has set filters this one. */
  chose() {
    this.own.clear();
    this.ask();
  }

  /** Ask for the tab under the selection as it is. */
  async ask() {
    const {tab, body} = this,
      mine = ++this.turn;
    clearTimeout(this.late);
    if (!tab) return;
    if (tab.missing) {
      this.state = 'absent';
      body.replaceChildren(textElement('p', 'nbp-empty', tab.missing));
      return;
    }
    this.state = 'asked';
    body.setAttribute('aria-busy', 'true');
    this.late = setTimeout(() => {
      const last = this.last.get(this.keyOf(tab));
      if (!this.shown && last) this.put(last).catch(this.ctx.trouble);
      if (this.shown) {
        body.classList.add('nbp-stale');
        this.scope.textContent = 'of what was selected before: working it out …';
      } else body.replaceChildren(textElement('p', 'nbp-empty nbp-working', 'Working it out …'));
    }, LATE_MS);
    try {
      await this.fetch(tab, mine);
    } catch (error) {
      if (mine === this.turn && !this.closed) this.fail(/** @type {Error} */ (error));
    } finally {
      if (mine === this.turn) {
        clearTimeout(this.late);
        body.removeAttribute('aria-busy');
        body.classList.remove('nbp-stale');
      }
    }
  }

  /** @param {TabSettings} tab */
  keyOf({name}) {
    return JSON.stringify([name, this.choices.values()]);
  }

  /**
   * @param {TabSettings} tab
   * @param {number} mine
   */
  async fetch(tab, mine) {
    const {ctx} = this,
      key = this.keyOf(tab);
    const answer = await ctx.asker.ask({t: 'panel', name: tab.name, own: [...this.own], choices: this.choices.values()}, () => mine === this.turn);
    if (mine !== this.turn || this.closed) return;
    this.last.set(key, answer);
    await this.put(answer);
    const absent = 'absent' in answer;
    this.followsOwn = absent ? this.followsOwn : answer.follows_own;
    this.state = absent ? 'absent' : 'shown';
    this.title.textContent = absent ? tab.title : answer.title;
    this.scope.textContent = absent ? '' : this.scopeOf(answer);
    ctx.count(`panel ${tab.name}`);
  }

  /**
   * Show an answer in place of what is there.
   * @param {PanelAnswer | NoPanel} answer
   */
  async put(answer) {
    const {ctx, body} = this,
      next = createParts(ctx, answer, this.pick),
      first = !this.shown,
      top = body.scrollTop;
    this.shown?.dispose();
    this.shown = next;
    body.replaceChildren(...next.elements);
    await next.mount();
    body.scrollTop = top;
    if (first) next.reveal(body);
  }

  /** @param {Error} error */
  fail(error) {
    this.state = 'failed';
    this.scope.textContent = '';
    this.shown?.dispose();
    this.shown = null;
    const again = textElement('button', '', 'Try again'),
      problem = textElement('p', 'nbp-problem', `This tab could not be worked out: ${error.message} `);
    again.addEventListener('click', () => this.ask());
    problem.setAttribute('role', 'alert');
    problem.append(again);
    this.body.replaceChildren(problem);
  }

  /**
   * In words: which clauses of the selection this tab follows, and which it does not.
   * @param {PanelAnswer} answer
   */
  scopeOf({under, whole}) {
    const state = this.ctx.store.get(),
      dimensions = /** @type {Dimension[]} */ (Object.keys(SELECTED)),
      chosen = dimensions.filter((d) => state[d] != null && !this.own.has(d)),
      words = (/** @type {Dimension[]} */ some) => some.map((d) => SELECTED[d]).join(', ');
    if (!chosen.length) return '';
    if (whole) return 'of the whole recording: without Python it cannot follow the selection';
    const followed = chosen.filter((d) => under.includes(d)),
      rest = chosen.filter((d) => !under.includes(d));
    return [followed.length ? `of the selected ${words(followed)}` : '', ...rest.map((d) => ALL[d])]
      .filter(Boolean)
      .join(' · ');
  }

  redraw() {
    this.shown?.redraw();
  }

  theme() {
    this.shown?.theme();
  }

  close() {
    this.closed = true;
    this.clear();
  }

  snapshot() {
    return {
      state: this.state,
      title: this.title.textContent,
      scope: this.scope.textContent,
      text: this.body.innerText,
      parts: this.shown?.kinds ?? [],
      asked: this.ctx.asker.log.of.panel ?? 0,
      pictures: this.shown?.snapshot() ?? [],
    };
  }
}
