// Questions: one in flight a channel, the newest wins, and a word to the user when no answer comes.
import {unpack} from './packing.js';

const PATIENCE_MS = 4000;
const AGAIN_MS = 150;
/** Questions whose answers tell rows, or are of some. */
const BY_ROW = new Set(['timeline', 'detail', 'find', 'neighbour', 'search', 'calls', 'selected']);
export const RESEND_MS = 15000; // a message can be lost (rate limits): then the question is asked again

/**
 * @typedef {'waiting' | 'lost' | 'gone' | null} Trouble
 * @typedef {(act: () => void) => void} Turn
 */

/** Asks the questions of a page and keeps account of the answers. */
export class Asker {
  log = {
    asked: 0,
    answered: 0,
    dropped: 0,
    bytes: 0,
    largest: 0,
    of: /** @type {Record<string, number>} */ ({}),
    kernelMs: /** @type {(number | undefined)[]} */ ([]),
    roundTripMs: /** @type {number[]} */ ([]),
  };
  /** @type {Set<Channel<any>>} */ channels = new Set();
  seq = 0;
  closed = false;
  /** Whether rows are those of all frames; see `Timeline.showAllFrames`. */ unfolded = false;
  /** @type {Trouble} */ troubled = null;
  /** Questions that wait for long: others may be answered meanwhile, where the page answers them itself. */
  late = new Set();
  /** Answers to questions that were asked ahead. @type {Map<string, Promise<any>>} */ ahead = new Map();

  /**
   * @param {Transport} transport
   * @param {(state: Trouble) => void} onTrouble
   * @param {(kind: string, waits: boolean) => void} onPending told of questions whose index is still being made
   * @param {number} resendMs
   */
  constructor(transport, onTrouble = () => {}, onPending = () => {}, resendMs = RESEND_MS) {
    this.transport = transport;
    this.onTrouble = onTrouble;
    this.onPending = onPending;
    this.resendMs = resendMs;
    this.stop = transport.whenLost?.(() => this.trouble('gone'));
  }

  /**
   * Tell somebody else from now on.
   * @param {(state: Trouble) => void} onTrouble
   * @param {(kind: string, waits: boolean) => void} onPending
   */
  tell(onTrouble, onPending) {
    Object.assign(this, {onTrouble, onPending});
    if (this.troubled) onTrouble(this.troubled);
  }

  /** @param {Trouble} state */
  trouble(state) {
    if (this.troubled === 'gone') return; // for good
    if (state !== this.troubled) {
      this.troubled = state;
      this.onTrouble(state);
    }
  }

  /**
   * Ask ahead: who asks the same question next gets this answer, unless the selection changes before. From then on
   * it is `wanted`.
   * @template {Question} Q
   * @param {QuestionOf<Q>} request
   * @param {() => boolean} [wanted]
   * @returns {Promise<AnswerOf<Q>>}
   */
  foresee(request, wanted = () => true) {
    const key = JSON.stringify(request),
      answer = this.ask(request, () => !this.ahead.has(key) || wanted());
    answer.catch(() => this.ahead.delete(key)); // it is asked again
    this.ahead.set(key, answer);
    return answer;
  }

  /**
   * Ask one question. `wanted` is asked before a question that the kernel is still working on is put again.
   * @template {Question} Q
   * @param {QuestionOf<Q>} request
   * @param {() => boolean} wanted
   * @returns {Promise<AnswerOf<Q>>}
   */
  async ask(request, wanted = () => true) {
    const key = this.ahead.size ? JSON.stringify(request) : '',
      known = this.ahead.get(key);
    this.ahead.delete(key);
    if (known) return known;
    let waits = false;
    const mine = {...request, seq: ++this.seq, ...(this.unfolded && BY_ROW.has(request.t) && {unfolded: true})};
    const pending = () => {
      if (!waits) this.onPending(request.t, true);
      waits = true;
    };
    try {
      return await this.askUntil(mine, wanted, pending);
    } finally {
      this.late.delete(mine);
      if (waits) this.onPending(request.t, false);
    }
  }

  /**
   * @template {Question} Q
   * @param {QuestionOf<Q> & {seq: number}} mine
   * @param {() => boolean} wanted
   * @param {() => void} pending
   * @returns {Promise<AnswerOf<Q>>}
   */
  async askUntil(mine, wanted, pending) {
    const {log} = this;
    log.asked++;
    log.of[mine.t] = (log.of[mine.t] ?? 0) + 1;
    const began = performance.now();
    for (let attempt = 0; ; attempt++) {
      if (this.closed) throw this.drop('closed');
      const answer = await this.attempt(/** @type {Message} */ (/** @type {unknown} */ (mine)));
      if (answer === null) {
        if (attempt < 2) continue;
        this.trouble('lost');
        throw this.drop(`no answer to ${mine.t}`);
      }
      this.late.delete(mine);
      if (!this.late.size) this.trouble(null);
      if (answer.content.pending) {
        if (!wanted()) throw this.drop('nobody waits for it any more');
        pending();
        // an index of a long trace is being built: the timeline goes on meanwhile
        await new Promise((done) => setTimeout(done, AGAIN_MS));
        attempt = -1;
        continue;
      }
      this.note(answer, performance.now() - began);
      if (answer.content.failed) throw new Error(answer.content.failed);
      return /** @type {AnswerOf<Q>} */ (/** @type {unknown} */ ({...answer.content, data: unpack(answer)}));
    }
  }

  /**
   * Count a question that will get no answer, and make its error.
   * @param {string} why
   */
  drop(why) {
    this.log.dropped++;
    return new Error(why);
  }

  /**
   * Send a question and wait for its answer; null where none comes.
   * @param {Message} message
   * @returns {Promise<RawAnswer | null>}
   */
  async attempt(message) {
    const late = setTimeout(() => {
      this.late.add(message);
      this.trouble('waiting');
    }, PATIENCE_MS);
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let lost;
    /** @type {Promise<null>} */
    const giveUp = new Promise((resolve) => {
      lost = setTimeout(() => resolve(null), this.resendMs);
    });
    const answer = await Promise.race([this.transport.request(message), giveUp]);
    clearTimeout(late);
    clearTimeout(lost);
    return answer;
  }

  /**
   * @param {RawAnswer} answer
   * @param {number} ms
   */
  note(answer, ms) {
    const {log} = this,
      bytes = answer.buffers.reduce((sum, part) => sum + part.byteLength, 0);
    log.answered++;
    log.bytes += bytes;
    log.largest = Math.max(log.largest, bytes);
    log.kernelMs.push(answer.content.ms);
    log.roundTripMs.push(ms);
  }

  /**
   * Open a channel: see `Channel`.
   * @template {Question} Q
   * @param {(must: boolean) => QuestionOf<Q> | null} make
   * @param {(answer: AnswerOf<Q>, request: QuestionOf<Q>, stale: boolean) => void} use
   * @param {(error: Error) => void} failed
   * @param {readonly string[]} filters
   * @param {Turn} turn
   */
  channel(make, use, failed, filters = [], turn = (act) => act()) {
    const made = new Channel(this, make, use, failed, filters, turn);
    this.channels.add(made);
    return made;
  }

  /**
   * Tell the channels that a selection has been confirmed.
   * @param {number} revision
   * @param {Dimension[]} changed
   */
  confirm(revision, changed) {
    for (const one of this.channels) one.confirm(revision, changed);
  }

  close() {
    this.closed = true;
    this.stop?.();
  }
}

/**
 * A line for one kind of question: call `run` often.
 *
 * `make(must)` is asked for the request only when the line is free, and may give none where nothing has to be asked,
 * unless it must. `filters` are the dimensions of the selection that the answer depends on: one that has not seen them
 * as they are confirmed (messages overtake one another where several threads answer) is asked for anew. `turn(act)`
 * waits for the answer's turn to be used.
 * @template {Question} Q
 */
export class Channel {
  busy = false;
  again = false;
  closed = false;
  seen = Infinity;
  needed = 0; // the revision that an answer must have seen
  isFirst = true;

  /**
   * @param {Asker} asker
   * @param {(must: boolean) => QuestionOf<Q> | null} make
   * @param {(answer: AnswerOf<Q>, request: QuestionOf<Q>, stale: boolean) => void} use
   * @param {(error: Error) => void} failed
   * @param {readonly string[]} filters
   * @param {Turn} turn
   */
  constructor(asker, make, use, failed, filters, turn) {
    this.asker = asker;
    this.make = make;
    this.use = use;
    this.failed = failed;
    this.filters = filters;
    this.turn = turn;
  }

  get late() {
    return !this.closed && this.seen < this.needed;
  }

  /** Ask, at once or when the line is free. */
  async run() {
    if (this.closed) return;
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      const {unfolded} = this.asker,
        request = this.make(this.late),
        answer = request && (await this.asker.ask(request));
      if (unfolded !== this.asker.unfolded) this.again = true; // it is of other rows
      else if (request && answer && !this.closed) {
        this.seen = answer.revision ?? Infinity;
        await this.used(answer, request);
      }
    } catch (error) {
      if (!this.closed && this.asker.troubled !== 'gone') this.failed(/** @type {Error} */ (error));
    }
    this.busy = false;
    if (this.again || this.late) {
      this.again = false;
      this.run();
    }
  }

  /**
   * @param {AnswerOf<Q>} answer
   * @param {QuestionOf<Q>} request
   * @returns {Promise<void>}
   */
  used(answer, request) {
    const turn = this.isFirst ? (/** @type {() => void} */ act) => act() : this.turn; // nothing moves yet
    this.isFirst = false;
    return new Promise((done, fail) => {
      turn(() => {
        try {
          if (!this.closed) this.use(answer, request, this.again || this.late);
          done();
        } catch (error) {
          fail(error);
        }
      });
    });
  }

  /**
   * @param {number} revision
   * @param {Dimension[]} changed
   */
  confirm(revision, changed) {
    if (changed.some((key) => this.filters.includes(key))) this.needed = Math.max(this.needed, revision);
    if (!this.busy && this.late) this.run();
  }

  close() {
    this.closed = true;
    this.asker.channels.delete(this);
  }
}
