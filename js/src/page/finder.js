// Find slices by name: matches are marked on the overview, Enter walks them.
import {formatCount} from '../shared/units.js';
import {element} from '../shared/elements.js';

/**
 * @param {Context} ctx
 * @param {HTMLElement} box
 */
export function createFinder(ctx, box) {
  const group = element('div', 'nbp-find', box),
    input = element('input', '', group),
    status = element('span', 'nbp-find-status', group),
    marks = ctx.host.model('marks'),
    PX = 1000;
  input.type = 'search';
  input.placeholder = 'find ( / )';
  input.title = 'conv, /mm|conv/, self>1ms · Enter: next · Shift+Enter: previous';
  input.setAttribute('aria-label', 'find slices');
  status.setAttribute('aria-live', 'polite');
  let typing = 0,
    walking = Promise.resolve();
  /** @type {(SearchAnswer & {text?: string, visited?: boolean}) | null} */
  let last = null;
  const clear = () => {
    last = null;
    status.textContent = '';
    marks.data = {x0: [], x1: [], y0: [], y1: []};
    ctx.search('');
  };
  /** @param {SearchAnswer} answer */
  function show(answer) {
    last = answer;
    status.classList.toggle('nbp-problem', Boolean(answer.error));
    status.textContent = answer.error || (answer.count ? `${formatCount((answer.place ?? 0) + 1)} of ${formatCount(answer.count)}` : 'none');
    const [begin, end] = ctx.meta.span,
      bin = (end - begin) / answer.data.marks.length,
      rows = ctx.host.model('strip_rows');
    /** @type {Record<'x0' | 'x1' | 'y0' | 'y1', number[]>} */
    const out = {x0: [], x1: [], y0: [], y1: []};
    answer.data.marks.forEach((mark, k) => {
      if (!mark) return;
      out.x0.push(begin + k * bin);
      out.x1.push(begin + (k + 1) * bin);
      out.y0.push(0);
      out.y1.push(0.28 * Math.max(rows.start, 1));
    });
    marks.data = out;
    ctx.search(answer.count ? input.value.trim() : '');
    ctx.count('finder');
  }
  /** @param {Partial<SearchRequest>} more */
  async function ask(more) {
    const text = input.value.trim();
    if (!text) {
      clear();
      return null;
    }
    try {
      const answer = await ctx.asker.ask({t: 'search', text, px: PX, ...more});
      if (input.value.trim() !== text) return null;
      show(answer);
      return answer;
    } catch (error) {
      ctx.trouble(/** @type {Error} */ (error));
      return null;
    }
  }
  /** @param {number} by */
  async function walk(by) {
    const from = last && last.text === input.value.trim() && last.visited ? {id: last.id, by} : {at: Math.floor(ctx.range.start)};
    const answer = await ask(from);
    if (!answer || answer.id === null) return;
    last = {...answer, text: input.value.trim(), visited: true};
    ctx.goTo(answer);
  }
  input.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => ask({at: Math.floor(ctx.range.start)}), 150);
  });
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    clearTimeout(typing);
    const by = event.shiftKey ? -1 : 1;
    walking = walking.then(() => walk(by)); // one after the other, however fast the key is pressed
  });
  return {
    focus: () => {
      input.focus();
      input.select();
    },
    clear: () => {
      if (!input.value) return false;
      input.value = '';
      clear();
      return true;
    },
    close: () => clearTimeout(typing),
    snapshot: () => ({count: last?.count ?? 0, place: last?.place ?? null, marks: marks.data.x0.length}),
  };
}
