// The mounted page: makes its parts, gives them one context, and tells them what has changed.
import {Account} from '../charts/account.js';
import {Memory} from '../charts/memory.js';
import {Overview} from '../charts/overview.js';
import {Phases} from '../charts/phases.js';
import {Table} from '../table/table.js';
import {activeElement} from '../shared/elements.js';
import {createHistory} from '../shared/history.js';
import {filters} from '../shared/store.js';
import {Rail} from '../tabs/rail.js';
import {openingView} from '../timeline/early.js';
import {Flag} from '../timeline/flag.js';
import {Timeline} from '../timeline/timeline.js';
import {shownTrace} from './context.js';
import {copyAsPandas} from './copying.js';
import {Detail} from './detail.js';
import {CriticalPath} from './critical_path.js';
import {WhatIf} from './what_if.js';
import {Why} from './why.js';
import {Header} from './header.js';
import {watchFocus} from './input_focus.js';
import {attachKeyboard, helpPanel} from './keyboard.js';
import {createNavigation} from './navigation.js';
import {createRuler} from './ruler.js';
import {paintFigures, readTheme, watchTheme} from './theme.js';
import {toolbar} from './toolbar.js';
import {ResponsiveLayout} from './responsive.js';
import {showWindow, watchPointer, writeTicks} from './wiring.js';

const HINT_MS = 2500;

/**
 * @typedef {object} Mounted
 * @property {HTMLElement} el
 * @property {PageParts} parts
 * @property {Host} host
 * @property {Meta} meta
 * @property {Settings} settings
 * @property {Store} store
 * @property {Asker} asker
 * @property {Transport} transport
 * @property {Record<string, number>} counts how often each view has been drawn
 * @property {(text: string) => void} say
 * @property {import('./early_views.js').Early | null} early what is drawn already
 */

/** All views of a profile. */
export class Dashboard {
  /** @type {(() => void)[]} */ undo = [];
  mode = 'pan';
  /** @type {number | null} */ pointer = null;
  hintTimer = 0;
  inTimeline = false; // whether the last click or focus was in what has the time axis
  closed = false;

  /** @param {Mounted} page */
  constructor(page) {
    const {parts, host, settings, store, asker} = page;
    this.page = page;
    /** @type {BokehRange} */
    this.range = host.model('view');
    this.history = createHistory(store);
    this.undo.push(this.history.stop);
    const {early} = page,
      ctx = (this.ctx = Object.assign(early?.ctx ?? {}, this.context()));
    this.layout = new ResponsiveLayout(ctx, parts.root);
    this.layout.fit();
    parts.head.replaceChildren();
    this.bar = toolbar(
      ctx,
      parts.bar,
      (next) => {
        this.mode = next;
        parts.timeline.classList.toggle('nbp-select-mode', next === 'select');
      },
      () => this.refresh(),
    );
    this.header = new Header(ctx, parts.head, parts.account);
    this.account = new Account(ctx, parts.account);
    this.help = helpPanel(parts.root);
    this.ruler = createRuler(ctx, parts.root);
    this.timeline = new Timeline(ctx, parts.timeline);
    this.overview = new Overview(ctx, parts.overview);
    this.memory = new Memory(ctx, parts.memory);
    this.flag = new Flag(ctx, this.timeline, this.memory);
    this.phases = new Phases(ctx, parts.phases, parts.legend, parts.phaseTitle);
    this.table = early?.table ?? new Table(ctx, parts.table);
    this.details = new Detail(ctx, parts.detail, this.timeline);
    this.why = new Why(ctx, parts.root);
    this.whatIf = new WhatIf(ctx, parts.root);
    this.path = new CriticalPath(ctx, this.timeline.path, this.bar.path, (text) => this.details.say(text));
    this.panels = new Rail(ctx, parts);
    writeTicks(ctx, this.phases);
    this.listen();
    paintFigures(host.doc, ctx.theme);
    showWindow(ctx);
    parts.root.classList.remove('nbp-loading');
    for (const name of settings.figures) /** @type {Record<string, HTMLElement>} */ (parts)[name].style.minHeight = '';
    this.range.setv(openingView(page.meta));
    this.timeline.start(early?.picture ?? null); // it asks first, and is answered by itself
    this.refreshOthers(early?.state === store.get());
    const pictures = parts.root.querySelectorAll('.nbp-early');
    // the figures are painted in the next frame, and seen in the one after it
    requestAnimationFrame(() => requestAnimationFrame(() => pictures.forEach((one) => one.remove())));
    this.account.ask();
    this.bar.legend.show(ctx.tint);
    if (store.get().focus != null) this.details.update();
    this.askDoubts(asker);
    this.publish();
  }

  /**
   * What the parts share. Some of it calls parts that are made later.
   * @returns {Context}
   */
  context() {
    const {el, parts, host, meta, settings, store, asker, transport, counts} = this.page,
      {range} = this,
      {root} = parts;
    const trouble = (/** @type {Error} */ error) => {
      if (!this.closed && parts.trouble.hidden) this.page.say(`A view could not be updated: ${error.message}`);
    };
    const hint = (/** @type {string} */ text) => this.hint(text);
    return {
      ...shownTrace({host, settings, meta, store, asker, range, root}),
      whenTold: transport.whenTold,
      before: settings.before,
      search: (text) => {
        if (text === this.ctx.searchText) return;
        this.ctx.searchText = text;
        this.timeline.refresh();
      },
      count: (name) => {
        counts[name] = (counts[name] ?? 0) + 1;
        /** @type {{nbp?: {counted?: (name: string) => void}}} */ (el).nbp?.counted?.(name); // who measures
      },
      trouble,
      hint,
      hoverLine: (line) => this.panels.hover(line),
      because: () => this.header.because(),
      takeFocus: () => root.focus({preventScroll: true}),
      inTimeline: () => this.inTimeline && root.contains(activeElement()),
      mode: () => this.mode,
      pointerTime: () => this.pointer,
      settled: () => {},
      totals: (answer) => {
        this.header.totals(answer);
        this.ruler.totals(answer);
      },
      ...createNavigation({store, meta, asker, range, hint, trouble}, () => this),
      why: () => void this.why.ask(),
      path: () => void this.path.toggle(),
      whatIf: () => this.whatIf.toggle(),
      explain: (segments) => this.path.explain(segments),
      find: () => this.bar.finder.focus(),
      clearFind: () => this.bar.finder.clear(),
      measure: () => this.ruler.toggle(),
      focusFilter: () => this.table.focusFilter(),
      help: () => this.help.toggle(),
      copyAsPandas: () => copyAsPandas(root, hint, (element) => this.table.codeAt(element)),
      goBack: (by) => {
        if (!this.history.go(by)) hint(by < 0 ? 'nothing was selected before' : 'nothing was undone');
      },
      escape: () => {
        const {help, why, whatIf, path, ruler} = this;
        if (!help.hide() && !why.hide() && !whatIf.hide() && !path.hide() && !ruler.hide() && !this.bar.finder.clear()) store.clear('escape');
      },
    };
  }

  /** @param {string} text */
  hint(text) {
    const {hint} = this.bar;
    hint.textContent = text;
    clearTimeout(this.hintTimer);
    if (text)
      this.hintTimer = setTimeout(() => {
        hint.textContent = '';
      }, HINT_MS);
  }

  listen() {
    const {ctx, undo, range} = this,
      {host, parts, store, asker} = this.page;
    undo.push(
      ...watchPointer(
        ctx,
        this.timeline,
        this.memory,
        (time, track, id) => {
          this.pointer = time;
          this.why.point(id !== undefined ? {id} : track === null ? null : {track, at: Math.floor(time)});
        },
        () => this.why.point(null),
      ),
    );
    undo.push(attachKeyboard(ctx, parts.root), () => this.closeParts());
    undo.push(
      watchFocus(parts.root, [parts.overview, parts.timeline, parts.memory], (inside) => {
        this.inTimeline = inside;
      }),
    );
    const follow = () => {
      this.timeline.moved();
      this.overview.seen();
      this.ruler.draw();
      this.memory.moved();
      this.flag.draw();
    };
    const changed = () => host.frames.before(follow);
    range.properties.start.change.connect(changed);
    range.properties.end.change.connect(changed);
    undo.push(this.page.transport.whenTold?.((_, pieces, before) => this.compared(before)) ?? (() => {}));
    undo.push(watchTheme(this.page.parts.root, () => this.repaint()));
    undo.push(store.subscribe((patch, origin) => this.selected(patch, origin)));
    undo.push(store.whenConfirmed((revision, dimensions) => asker.confirm(revision, dimensions)));
    let width = this.timeline.widthPx();
    const resize = new ResizeObserver(() => {
      if (!parts.root.offsetWidth) return;
      this.layout.fit();
      const now = this.timeline.widthPx();
      if (now !== width) {
        width = now;
        this.timeline.refresh();
        this.overview.refresh();
      }
      this.flag.draw();
    });
    resize.observe(parts.root);
    undo.push(() => resize.disconnect());
    const lower = () => {
      this.layout.fitHeight(innerHeight);
      this.timeline.fitHeight(innerHeight);
    };
    addEventListener('resize', lower);
    undo.push(() => removeEventListener('resize', lower));
  }

  /** Ask for everything that is drawn. */
  refresh() {
    this.timeline.refresh();
    this.refreshOthers();
  }

  /** @param {boolean} kept whether what has been drawn is of this selection */
  refreshOthers(kept = false) {
    for (const view of [this.overview, this.memory, this.phases]) view.refresh();
    if (!kept || !this.table.adopt()) this.table.refresh();
  }

  /** @param {RunBefore | undefined} before what the run before took */
  compared(before) {
    this.ctx.before = before;
    this.phases.redraw();
    this.panels.changed({}, 'before');
  }

  /** Draw anew in the colours of another theme. */
  repaint() {
    const {ctx} = this;
    ctx.theme = readTheme(this.page.parts.root);
    paintFigures(ctx.host.doc, ctx.theme);
    this.account.draw();
    this.timeline.repaint();
    this.overview.refresh();
    this.panels.theme();
  }

  /**
   * Follow a change of the selection.
   * @param {SelectionPatch} patch
   * @param {string} origin
   */
  selected(patch, origin) {
    const {account, details, header, memory, overview, panels, phases, ruler, table, timeline} = this,
      has = (/** @type {(keyof SelectionPatch)[]} */ ...keys) => keys.some((key) => key in patch),
      filtered = filters(patch, 'window');
    // the questions first: the kernel works while the page draws what it knows
    if (filtered) timeline.refresh();
    if (filtered || has('window')) {
      table.refresh();
      if (filtered) overview.refresh();
      phases.refresh();
      memory.refresh();
      timeline.indicators.changed(filtered ? origin : undefined);
    }
    if (filtered || has('window')) this.whatIf.changed();
    if (has('focus')) details.update();
    this.page.transport.flush?.();
    if (has('name')) timeline.foresee();
    panels.changed(patch, origin);
    header.draw();
    if (has('window')) {
      showWindow(this.ctx);
      account.draw();
      ruler.draw();
    }
    if (has('track')) timeline.marks();
    if (has('pinned')) timeline.pin();
    if (filtered) table.redraw();
    if (has('step', 'phase')) phases.redraw();
    if (origin !== 'table' && has('name')) requestAnimationFrame(() => table.reveal());
  }

  /**
   * Which names are in doubt takes the kernel seconds for a long recording: the rows are marked when it is known.
   * @param {Asker} asker
   */
  askDoubts(asker) {
    const {meta} = this.page;
    if (meta.doubts) return;
    asker.ask({t: 'doubts'}, () => !this.closed).then(
      (answer) => {
        meta.doubts = answer.doubts;
        if (!this.closed) this.table.doubted();
      },
      () => {}, // no row is marked then
    );
  }

  /** The page as an element's property: what tests, tours and measurements use. */
  publish() {
    const {el, store, transport, counts, asker, meta, host} = this.page,
      {range, account, timeline, overview, memory, phases, table, panels, ctx} = this;
    Object.assign(el, {
      nbp: {
        store,
        transport,
        range,
        counts,
        log: asker.log,
        setView: ctx.setView,
        account,
        timeline,
        overview,
        memory,
        phases,
        table,
        panels,
        detail: this.details.current,
        finder: this.bar.finder,
        meta,
        flag: this.flag,
        theme: () => ctx.theme,
        doc: host.doc,
      },
    });
  }

  closeParts() {
    this.header.close();
    clearTimeout(this.hintTimer);
    this.bar.finder.close();
    this.bar.legend.close();
    for (const view of [this.account, this.timeline, this.overview, this.memory, this.phases, this.table, this.panels]) view.close();
  }

  close() {
    this.closed = true;
    for (const action of this.undo.reverse()) action();
    this.page.host.dispose();
  }
}
