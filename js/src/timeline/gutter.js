// Names of tracks beside the timeline. A native scroll container: its scroll position is the timeline's.
import {activeElement} from '../shared/elements.js';
import {Roving} from '../shared/roving.js';
import {scrollWithFocus} from '../shared/scrolling.js';
import {formatQuantity, formatRange, formatShare} from '../shared/units.js';
import {hiddenFrames} from './all_frames.js';
import {scaleOf} from './counters.js';
import {RowsInSight} from './rows_in_sight.js';

/**
 * @param {string} text
 * @param {string} title
 * @param {() => void} act
 */
function button(text, title, act) {
  const made = document.createElement('button');
  made.className = 'nbp-fold';
  made.textContent = text;
  made.title = title;
  made.setAttribute('aria-label', title);
  made.tabIndex = -1;
  made.addEventListener('click', (event) => {
    event.stopPropagation();
    act();
  });
  return made;
}

/**
 * The button that pins a track to the top of the timeline, and takes it off again.
 * @param {boolean} pinned
 * @param {string} name
 * @param {() => void} act
 */
function pinButton(pinned, name, act) {
  const made = button('', pinned ? 'unpin (P)' : 'pin to the top (P)', act);
  made.classList.add('nbp-pin');
  made.setAttribute('aria-label', `pin ${name} to the top`);
  made.setAttribute('aria-pressed', String(pinned));
  return made;
}

/**
 * @param {string} className
 * @param {string} text
 */
function span(className, text) {
  const made = document.createElement('span');
  made.className = className;
  made.textContent = text;
  return made;
}

/**
 * @param {KeyboardEvent} event
 * @param {Record<string, () => void>} actions
 */
function answerKey(event, actions) {
  const act = event.ctrlKey || event.metaKey ? undefined : actions[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

/** The names of the lanes, and what can be done to a track. */
export class Gutter {
  box = document.createElement('div');
  /** What stays in sight while the box scrolls. */
  pins = document.createElement('div');
  top = document.createElement('div');
  filter = document.createElement('input');
  showAll = document.createElement('button');
  /** @type {Roving | null} */ roving = null;

  /**
   * @param {Context} ctx
   * @param {Lanes} lanes
   * @param {(why: 'layout' | 'frames' | 'scroll') => void} onChange
   */
  constructor(ctx, lanes, onChange) {
    this.settings = ctx.settings;
    this.store = ctx.store;
    this.lanes = lanes;
    this.onChange = onChange;
    this.rows = new RowsInSight(this.box, lanes, ctx.settings.lane, (lane, y) => this.row(lane, y));
    const {box, pins, top} = this;
    box.className = 'nbp-gutter';
    pins.className = 'nbp-gutter-pins';
    pins.style.top = `${ctx.settings.axis}px`;
    pins.setAttribute('role', 'tree');
    pins.setAttribute('aria-label', 'pinned tracks');
    pins.setAttribute('aria-multiselectable', 'true');
    box.tabIndex = -1;
    top.className = 'nbp-gutter-top';
    this.addTools();
    box.addEventListener('scroll', () => {
      if (this.rows.scrolled()) this.roving?.settle();
      onChange('scroll');
    });
    scrollWithFocus(box, () => ctx.inTimeline());
    pins.addEventListener(
      'wheel',
      (event) => {
        if (event.ctrlKey || !ctx.inTimeline()) return;
        event.preventDefault();
        box.scrollTop += event.deltaY;
      },
      {passive: false},
    );
    this.render();
  }

  /**
   * Filter and tracks are one stop of the Tab key.
   * @param {HTMLElement} element that holds both
   */
  rove(element) {
    this.roving = new Roving(element, '.nbp-gutter-top > *, .nbp-track[data-key], .nbp-track-group > .nbp-fold', true);
  }

  /**
   * Room for so many lanes, of which those of pinned tracks do not scroll.
   * @param {number} shown
   */
  setHeights(shown) {
    const {box, pins, lanes, settings} = this,
      stuck = lanes.stuck();
    pins.hidden = !stuck;
    pins.style.height = `${stuck * settings.lane}px`;
    box.style.top = `${settings.axis + stuck * settings.lane}px`;
    box.style.height = `${(shown - stuck) * settings.lane}px`;
    this.rows.fill();
  }

  addTools() {
    const {filter, showAll: all, lanes} = this;
    filter.type = 'search';
    filter.placeholder = 'tracks';
    filter.setAttribute('aria-label', 'filter tracks by name');
    filter.addEventListener('input', () => {
      lanes.setFilter(filter.value);
      this.changed();
    });
    all.className = 'nbp-show-all';
    all.addEventListener('click', () => {
      filter.value = '';
      lanes.showAll();
      this.changed();
    });
    this.top.append(filter, all);
  }

  /** @param {string} [focused] key of the track that the keyboard is at */
  changed(focused) {
    this.render();
    this.onChange('layout');
    if (focused) this.focus(focused);
  }

  /** @param {string} key */
  focus(key) {
    const {box, pins} = this,
      row = () => /** @type {HTMLElement | null} */ (pins.querySelector(`[data-key="${key}"]`) ?? box.querySelector(`[data-key="${key}"]`));
    if (!row()) this.rows.fill(key);
    row()?.focus({preventScroll: true});
  }

  /** @param {number[]} keys */
  pin(keys) {
    this.store.set({pinned: keys.length ? keys : null}, 'tracks');
  }

  /**
   * What pins a track or a counter, and moves it among the pinned ones.
   * @param {number} key
   */
  pinning(key) {
    const {lanes} = this;
    return {
      pin: () => this.pin(lanes.pinnedWith(key)),
      up: () => this.pin(lanes.pinnedMoved(key, -1)),
      down: () => this.pin(lanes.pinnedMoved(key, 1)),
    };
  }

  /**
   * What can be done to a track.
   * @param {HTMLElement} row
   * @param {Track} track
   */
  actions(row, track) {
    const {lanes, store} = this,
      pinned = lanes.isPinned(track),
      pinning = this.pinning(track.track),
      key = String(track.track);
    return {
      pin: pinning.pin,
      fold: () => {
        lanes.fold(track);
        this.changed(key);
      },
      up: () => {
        if (pinned) return pinning.up();
        lanes.move(track, -1);
        this.changed(key);
      },
      down: () => {
        if (pinned) return pinning.down();
        lanes.move(track, 1);
        this.changed(key);
      },
      hide: () => {
        const next = /** @type {HTMLElement | null} */ (row.nextElementSibling)?.dataset.key;
        lanes.hide(track.track);
        if (pinned) pinning.pin();
        this.changed(next);
      },
      choose: (extend = false) => {
        const now = store.get().track ?? [],
          next = now.includes(track.track)
            ? now.filter((k) => k !== track.track)
            : extend
              ? [...now, track.track]
              : [track.track];
        store.set({track: next.length ? next : null}, 'tracks');
      },
    };
  }

  /**
   * @param {HTMLElement} row
   * @param {Track} track
   */
  fillTrack(row, track) {
    const {lanes} = this,
      pinned = lanes.isPinned(track),
      hidden = hiddenFrames(lanes.meta, track) > 0,
      label = pinned && lanes.several ? `${track.label} · ${track.group}` : track.label,
      chosen = (this.store.get().track ?? []).includes(track.track),
      act = this.actions(row, track);
    row.dataset.key = String(track.track);
    row.tabIndex = 0;
    row.setAttribute('aria-selected', String(chosen));
    row.setAttribute('aria-label', `${label} ${Math.round(100 * track.busy)} % busy: track ${track.name}${pinned ? ', pinned' : ''}`);
    row.title = `${track.name}\n${track.group}\nbusy ${formatShare(track.busy)} of ${track.kind === 'stream' ? 'the time from its device’s first work to the last' : 'the recording'}\nclick: select · Enter: fold · P: ${pinned ? 'unpin' : 'pin to the top'} · Alt+↑ ↓: move · H: hide${hidden ? ' · O: all frames, or yours' : ''}`;
    if (track.depths - (lanes.allFrames ? 0 : hiddenFrames(lanes.meta, track)) > 1) {
      const fold = button(
        lanes.isFolded(track) ? '▸' : '▾',
        lanes.isFolded(track) ? 'show all its levels' : 'show the outermost level only',
        () => act.fold(),
      );
      fold.setAttribute('aria-hidden', 'true'); // the row says it, and folds by Enter
      row.setAttribute('aria-expanded', String(!lanes.isFolded(track)));
      row.append(fold);
    }
    const tools = document.createElement('span');
    tools.className = 'nbp-track-tools';
    tools.append(button('▴', 'move up', act.up), button('▾', 'move down', act.down), button('×', 'hide this track', act.hide));
    row.append(
      span('nbp-track-name', label),
      ...(hidden ? [this.framesButton(track)] : []),
      tools,
      ' ', // between the words that are read out
      span('nbp-track-busy', `${Math.round(100 * track.busy)} %`),
      pinButton(pinned, label, act.pin),
    );
    this.listen(row, track, act);
  }

  /**
   * Shows or hides frames of libraries, of steps and around everything.
   * @param {Track} track
   */
  framesButton(track) {
    const shown = this.lanes.allFrames,
      made = button('…', `${shown ? 'hide' : 'show'} frames of libraries, of steps and around everything (O)`, () => this.switchFrames(track));
    made.classList.toggle('nbp-shown', shown);
    made.setAttribute('aria-hidden', 'true'); // O does it
    return made;
  }

  /** @param {Track} track that the keyboard stays at */
  switchFrames(track) {
    this.onChange('frames');
    this.focus(String(track.track));
  }

  /**
   * @param {HTMLElement} row
   * @param {Track} track
   * @param {ReturnType<Gutter['actions']>} act
   */
  listen(row, track, act) {
    /** @type {Record<string, () => void>} */
    const moved = {ArrowUp: act.up, ArrowDown: act.down},
      /** @type {Record<string, () => void>} */
      plain = {
        Enter: track.depths > 1 ? act.fold : () => act.choose(),
        ' ': () => act.choose(),
        h: act.hide,
        p: act.pin,
        o: () => this.switchFrames(track),
        Delete: act.hide,
      };
    row.addEventListener('click', (event) => act.choose(event.ctrlKey || event.metaKey || event.shiftKey));
    row.addEventListener('keydown', (event) => {
      if (event.target !== row) return;
      answerKey(event, event.altKey ? moved : plain);
    });
  }

  /**
   * @param {HTMLElement} row
   * @param {import('./lanes.js').GroupLane} lane
   */
  fillGroup(row, lane) {
    const open = button(lane.open ? '▾' : '▸', lane.open ? 'close this group' : 'open this group', () => {
      this.lanes.close(lane.text);
      this.changed();
    });
    open.tabIndex = 0;
    open.setAttribute('aria-expanded', String(lane.open));
    row.dataset.group = lane.text;
    row.append(open, span('nbp-track-name', lane.text), span('nbp-track-busy', String(lane.tracks)));
  }

  /**
   * @param {HTMLElement} row
   * @param {Counter} counter
   */
  fillCounter(row, counter) {
    const [bottom, top] = scaleOf(counter),
      text = formatRange(bottom, top, counter.unit);
    row.title = `${counter.name}\n${counter.group}\nfrom ${formatQuantity(counter.low, counter.unit)} to ${formatQuantity(counter.high, counter.unit)}\nP: pin to the top`;
    row.dataset.key = String(counter.track);
    row.tabIndex = 0;
    const {pin, up, down} = this.pinning(counter.track),
      pinned = this.lanes.isPinned(counter);
    row.setAttribute('aria-label', `${counter.name} ${text}: counter${pinned ? ', pinned' : ''}`);
    row.append(span('nbp-track-name', counter.name), ' ', span('nbp-counter-range', text), pinButton(pinned, counter.name, pin));
    row.addEventListener('keydown', (event) => {
      if (event.target !== row) return;
      if (!event.altKey) answerKey(event, {p: pin});
      else if (pinned) answerKey(event, {ArrowUp: up, ArrowDown: down});
    });
  }

  /**
   * The name of the lanes that begin at a place.
   * @param {import('./lanes.js').Lane} lane
   * @param {number} y
   */
  row(lane, y) {
    const {settings} = this,
      row = document.createElement('div');
    row.className = `nbp-track nbp-track-${lane.kind}`;
    row.style.top = `${y * settings.lane}px`;
    row.style.height = `${(lane.depths ?? 1) * settings.lane}px`;
    if (lane.kind === 'lane') this.fillTrack(row, lane.track);
    else if (lane.kind === 'group') this.fillGroup(row, lane);
    else if (lane.kind === 'counter') this.fillCounter(row, lane.counter);
    else row.append(span('nbp-track-name', 'steps'));
    row.setAttribute('role', 'treeitem');
    return row;
  }

  render() {
    const {box, pins, lanes, showAll: all} = this,
      focused = activeElement();
    const group = box.contains(focused) ? /** @type {HTMLElement | null | undefined} */ (focused?.closest('[data-group]'))?.dataset.group : null;
    const held = box.contains(focused) || pins.contains(focused) ? /** @type {HTMLElement | null | undefined} */ (focused?.closest('[data-key]'))?.dataset.key : null;
    const above = lanes.all().slice(0, lanes.stuck());
    pins.replaceChildren(...above.flatMap((lane, place) => (lane.first === false ? [] : [this.row(lane, place)])));
    pins.hidden = !lanes.stuck(); // what is hidden takes no focus
    this.rows.renew();
    if (held) this.focus(held);
    if (group) /** @type {HTMLElement | null} */ (box.querySelector(`[data-group="${CSS.escape(group)}"] > .nbp-fold`))?.focus({preventScroll: true});
    const count = lanes.hiddenCount();
    all.hidden = !count;
    all.textContent = `${count} hidden`;
    all.title = 'show all tracks';
    this.roving?.settle();
  }
}
