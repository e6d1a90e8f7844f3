// The selection as this page sees it, and the only place that writes it.
// Truth is Profile.selection in Python. A gesture is applied here at once (pending) and sent as a patch of what it
// changes; the confirmed state that comes back, with pending patches on top, is what views see. So a Python write and
// a gesture at the same moment both survive, and a gesture that takes back one that is still on its way is not lost.
const DIMENSIONS = ['window', 'name', 'category', 'track', 'step', 'phase', 'rank', 'group', 'focus'];
const PICTURED = ['name', 'category', 'step', 'phase', 'rank']; // what dims slices in the timeline and the overview

function createStore(initial, send) {
  let confirmed = {...initial},
    current = {...initial};
  const pending = [],
    subscribers = new Set(),
    listeners = new Set();
  const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

  function settle(origin) {
    const before = current;
    current = Object.assign({...confirmed}, ...pending);
    const patch = {};
    for (const key of DIMENSIONS) if (!same(before[key], current[key])) patch[key] = current[key] ?? null;
    if (Object.keys(patch).length) for (const tell of [...subscribers]) tell(patch, origin);
  }
  function adopt(state, origin = 'python') {
    if ((state.revision ?? 0) < (confirmed.revision ?? 0)) {
      settle(origin); // late news; but what it confirms is no longer pending
      return;
    }
    const changed = DIMENSIONS.filter((key) => key !== 'focus' && !same(confirmed[key], state[key]));
    confirmed = {...state};
    settle(origin);
    if (changed.length) for (const tell of [...listeners]) tell(state.revision ?? 0, changed);
  }
  function set(patch, origin) {
    const real = Object.fromEntries(Object.entries(patch).filter(([key, value]) => !same(current[key], value)));
    if (!Object.keys(real).length) return;
    pending.push(real);
    const done = (reply) => {
      pending.splice(pending.indexOf(real), 1);
      if (reply?.state) adopt(reply.state, origin);
      else settle(origin);
    };
    // sent before the views hear of it: messages keep their order, so what they ask next is answered under it
    const sent = send(real, origin);
    settle(origin);
    Promise.resolve(sent).then(done, () => done(null));
  }
  return {
    get: () => current,
    set,
    adopt,
    clear: (origin) => set(Object.fromEntries(DIMENSIONS.map((key) => [key, null])), origin),
    isEmpty: () => DIMENSIONS.every((key) => key === 'focus' || current[key] == null),
    // told the revision and the dimensions of every confirmed change: answers from before it are out of date
    whenConfirmed: (tell) => {
      listeners.add(tell);
      return () => listeners.delete(tell);
    },
    subscribe: (tell) => {
      subscribers.add(tell);
      return () => subscribers.delete(tell);
    },
  };
}
