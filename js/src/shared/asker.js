// Questions: one in flight a channel, the newest wins, and a word to the user when no answer comes.
const PATIENCE_MS = 4000;
const AGAIN_MS = 150;
const RESEND_MS = 15000; // a message can be lost (rate limits): then the question is asked again

// `onPending(kind, waits)` tells of questions whose index is still being made
function createAsker(transport, onTrouble, onPending = () => {}) {
  const log = {asked: 0, answered: 0, dropped: 0, bytes: 0, largest: 0, of: {}, kernelMs: [], roundTripMs: []};
  const channels = new Set();
  let seq = 0,
    closed = false,
    troubled = false;
  const trouble = (state) => {
    if (troubled === 'gone') return; // for good
    if (state !== troubled) {
      troubled = state;
      onTrouble(state);
    }
  };

  // `wanted` is asked before a question that the kernel is still working on is put again
  async function ask(request, wanted = () => true) {
    let waits = false;
    const pending = () => {
      if (!waits) onPending(request.t, true);
      waits = true;
    };
    try {
      return await askUntil(request, wanted, pending);
    } finally {
      if (waits) onPending(request.t, false);
    }
  }

  async function askUntil(request, wanted, pending) {
    const mine = {...request, seq: ++seq};
    log.asked++;
    log.of[request.t] = (log.of[request.t] ?? 0) + 1;
    const began = performance.now();
    for (let attempt = 0; ; attempt++) {
      if (closed) throw new Error('closed');
      const late = setTimeout(() => trouble('waiting'), PATIENCE_MS);
      let lost;
      const giveUp = new Promise((resolve) => {
        lost = setTimeout(() => resolve(null), RESEND_MS);
      });
      const answer = await Promise.race([transport.request(mine), giveUp]);
      clearTimeout(late);
      clearTimeout(lost);
      if (answer === null) {
        if (attempt < 2) continue;
        trouble('lost');
        throw new Error(`no answer to ${request.t}`);
      }
      trouble(null);
      if (answer.content.pending) {
        if (!wanted()) throw new Error('nobody waits for it any more');
        pending();
        // an index of a long trace is being built: the timeline goes on meanwhile
        await new Promise((done) => setTimeout(done, AGAIN_MS));
        attempt = -1;
        continue;
      }
      const bytes = answer.buffers.reduce((sum, part) => sum + part.byteLength, 0);
      log.answered++;
      log.bytes += bytes;
      log.largest = Math.max(log.largest, bytes);
      log.kernelMs.push(answer.content.ms);
      log.roundTripMs.push(performance.now() - began);
      if (answer.content.failed) throw new Error(answer.content.failed);
      return {...answer.content, data: unpack(answer)};
    }
  }

  // channel(make, use): call it often; `make(must)` is asked for the request only when the line is free, and may give none
  // where nothing has to be asked, unless it must. `filters` are the
  // dimensions of the selection that the answer depends on: one that has not seen them as they are confirmed (messages
  // overtake one another where several threads answer) is asked for anew. `turn(act)` waits for the answer's turn to be used.
  function channel(make, use, failed, filters = [], turn = (act) => act()) {
    let busy = false,
      again = false,
      closed = false,
      seen = Infinity,
      needed = 0; // the revision that an answer must have seen
    const late = () => !closed && seen < needed;
    async function run() {
      if (closed) return;
      if (busy) {
        again = true;
        return;
      }
      busy = true;
      try {
        const request = make(late()),
          answer = request && (await ask(request));
        if (answer && !closed) {
          seen = answer.revision ?? Infinity;
          await new Promise((done, fail) => {
            turn(() => {
              try {
                if (!closed) use(answer, request, again || late());
                done();
              } catch (error) {
                fail(error);
              }
            });
          });
        }
      } catch (error) {
        if (!closed && troubled !== 'gone') failed(error);
      }
      busy = false;
      if (again || late()) {
        again = false;
        run();
      }
    }
    const mine = {
      run,
      confirm: (revision, changed) => {
        if (changed.some((key) => filters.includes(key))) needed = Math.max(needed, revision);
        if (!busy && late()) run();
      },
      close: () => {
        closed = true;
        channels.delete(mine);
      },
    };
    channels.add(mine);
    return mine;
  }
  function confirm(revision, changed) {
    for (const one of channels) one.confirm(revision, changed);
  }
  const stop = transport.whenLost?.(() => trouble('gone'));
  return {ask, channel, confirm, log, close: () => {
    closed = true;
    stop?.();
  }};
}
