// Pictures of the timeline as the kernel gives them: a share of the view more on each side, in bins finer than pixels. So a
// pan or a turn of the wheel within that shows right pixels in the next frame, and the next answer is on its way before they
// end.
import {PICTURED} from '../shared/store.js';
import {laneKeyOf} from './lanes.js';

const OVERSCAN = 0.36;
const FINER = 1.27;
const MOST_QUADS = 4000;
/** Lanes above and below those in sight, which scrolling shows next. */
export const BESIDE = 2;

/**
 * @typedef {QuestionOf<'timeline'>} Asked
 * @typedef {object} Picture
 * @property {TimelinePicture} answer
 * @property {Asked} asked
 * @property {Tint} tint
 * @property {number[]} places lanes of the answer's rows
 * @property {number} a
 * @property {number} b
 * @property {number} zoom
 * @property {string} lanes
 */

/**
 * Places and rows of the tracks in sight, and beside them.
 * @param {import('./lanes.js').Lanes} lanes
 * @param {number} top lanes that have been scrolled away
 * @param {number} bottom
 */
export function rowsInSight(lanes, top, bottom) {
  /** @type {{places: number[], rows: number[]}} */
  const found = {places: [], rows: []},
    all = lanes.all();
  for (const place of lanes.placesInSight(top, bottom, BESIDE)) {
    const lane = all[place];
    if (lane.kind !== 'lane') continue;
    found.places.push(place);
    found.rows.push(lane.row);
  }
  return found;
}

/**
 * The pixels that are asked for.
 * @param {number} width of the timeline
 */
const pixelsFor = (width) => Math.round(width * (1 + 2 * OVERSCAN) * FINER);

/**
 * The question for a picture, and for what lies beside it.
 * @param {Pick<BokehRange, 'start' | 'end'>} range
 * @param {{rows: number[], places: number[]}} lanes
 * @param {number} width of the timeline, in pixels
 * @param {Pick<Context, 'tint' | 'searchText'>} ctx
 * @returns {Asked}
 */
export function pictureQuestion({start, end}, {rows, places}, width, {tint, searchText}) {
  const zoom = end - start;
  return {
    t: 'timeline',
    a: start - OVERSCAN * zoom,
    b: end + OVERSCAN * zoom,
    px: pixelsFor(width),
    rows,
    places,
    zoom,
    tint,
    max_quads: MOST_QUADS,
    find: searchText,
  };
}

/** Keeps the picture that the timeline shows, and asks for the next one. */
export class Pictures {
  /** @type {Picture | null} */ have = null;
  changed = true; // what was asked for must be asked again, wherever the view is

  /** @param {import('./timeline.js').Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.ctx = timeline.ctx;
    this.range = timeline.range;
    this.channel = this.ctx.asker.channel(
      (must) => this.request(must),
      (found, asked, stale) => this.arrived(found, asked, stale),
      (error) => {
        this.changed = true;
        this.ctx.trouble(error);
      },
      PICTURED,
    );
  }

  refresh() {
    this.changed = true;
    this.channel.run();
  }

  moved() {
    if (this.reach() !== 'all') this.channel.run();
  }

  close() {
    this.channel.close();
  }

  /**
   * @param {boolean} must
   * @returns {Asked | null}
   */
  request(must) {
    const {have, ctx, range} = this,
      serves =
        have &&
        this.reach() === 'all' &&
        have.lanes === this.timeline.laneKey() &&
        have.tint === ctx.tint &&
        have.asked.px === pixelsFor(this.timeline.widthPx());
    if (!must && !this.changed && serves) return null;
    this.changed = false;
    // what of it is selected or found may have changed
    if (serves) return {...have.asked, find: ctx.searchText, picture: have.answer.picture};
    return pictureQuestion(range, this.timeline.visibleLanes(), this.timeline.widthPx(), ctx);
  }

  /**
   * @param {TimelinePicture | TimelineMarks} found
   * @param {Asked} request
   * @param {boolean} stale
   */
  arrived(found, request, stale) {
    const {have} = this,
      asked = {...request};
    delete asked.picture;
    const answer = found.same ? have && withMarks(have.answer, found) : found;
    if (!answer) return;
    /** @type {Picture} */
    const next = {
      answer,
      asked,
      tint: asked.tint,
      places: asked.places,
      a: asked.a,
      b: asked.b,
      zoom: asked.zoom,
      lanes: laneKeyOf(asked),
    };
    if (stale && (this.reach(next) === 'none' || this.reach() === 'all')) return; // what is shown is newer, or as good
    this.have = next;
    this.timeline.draw();
    this.ctx.count('timeline');
  }

  /**
   * How far a picture serves the view: 'none' (pixels are missing), 'now' (but another one should be asked for), 'all'.
   * @param {Picture | null} picture
   */
  reach(picture = this.have) {
    if (!picture) return 'none';
    const {range} = this,
      width = range.end - range.start,
      zoom = width / picture.zoom,
      beside = Math.min(range.start - picture.a, picture.b - range.end) / width;
    if (beside < 0 || zoom < 0.7 / FINER) return 'none';
    return zoom < 1 / FINER || zoom > 1.4 || beside < OVERSCAN / 2 ? 'now' : 'all';
  }

  /**
   * What was clicked shows in the next frame: of each slice the page knows the name, of a bin that of its longest one. What
   * the kernel finds follows.
   */
  foresee() {
    const {ctx, have} = this,
      chosen = ctx.store.get(),
      known = PICTURED.every((key) => key === 'name' || chosen[key] == null);
    if (!have || !known) return;
    const {data} = have.answer,
      names = chosen.name ? new Set(chosen.name) : null;
    /**
     * @param {NumberArray} codes
     * @param {number} yes
     */
    const marks = (codes, yes) => Uint8Array.from(codes, (code) => (!names || names.has(ctx.nameOf(code)) ? yes : 0));
    const match = marks(data.name, 1),
      bright = 'dname' in data ? marks(data.dname, 255) : undefined;
    this.have = {...have, answer: withMarks(have.answer, {filtered: Boolean(names), data: {match, bright, found: data.found}})};
    this.timeline.draw();
  }
}

/**
 * A picture with other marks of what is selected.
 * @param {TimelinePicture} answer
 * @param {Pick<TimelineMarks, 'filtered' | 'data'>} marks
 * @returns {TimelinePicture}
 */
function withMarks(answer, {filtered, data: {match, bright, found}}) {
  if (answer.mode === 'all') return {...answer, filtered, data: {...answer.data, match, found}};
  return {...answer, filtered, data: {...answer.data, match, found, bright: bright ?? answer.data.bright}};
}
