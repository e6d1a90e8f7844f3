// Where server and page are one machine, an answer of less than one segment (64 KiB on the loopback) waits about 40 ms: the
// server's socket keeps it until the page has acknowledged the message before it, and the page is in no hurry to do so.
// An answer filled up to a segment goes at once. Whether that holds here is measured, and measured again now and then.
const SEGMENT = 66000;
const TRIALS = 4;

function createPadding(local = ['localhost', '127.0.0.1', '[::1]'].includes(location.hostname)) {
  const times = {0: [], [SEGMENT]: []};
  let count = 0;
  const least = (pad) => Math.min(...times[pad]),
    other = (pad) => (pad ? 0 : SEGMENT);
  return {
    next() {
      if (!local) return 0;
      count++;
      if (times[0].length < TRIALS || times[SEGMENT].length < TRIALS) return count % 2 ? SEGMENT : 0;
      const best = least(SEGMENT) + 10 < least(0) ? SEGMENT : 0;
      return count % 50 ? best : other(best);
    },
    note(pad, ms) {
      if (!(ms >= 0)) return;
      times[pad].push(ms);
      if (times[pad].length > TRIALS) times[pad].shift();
    },
    times,
  };
}

// The live view: BokehJS comes over the comm once a page, questions and selections go to the kernel.
function lineTo(model) {
  // one a widget model, shared by its views
  if (model.nbpLine) return model.nbpLine;
  const waiting = new Map(),
    mourners = new Set();
  let number = 0,
    lost = false;
  // ipywidgets says when the kernel behind a widget has gone: at a restart, at once
  model.on('comm_live_update', () => {
    lost = true;
    for (const tell of mourners) tell();
  });
  const whenLost = (tell) => {
    mourners.add(tell);
    if (lost) tell();
    return () => mourners.delete(tell);
  };
  // the verdict of a long recording comes when it has been worked out
  const whenTold = (tell) => {
    const told = () => {
      const text = model.get('headline');
      if (text) tell(text, model.get('pieces'));
    };
    model.on('change:headline', told);
    told();
    return () => model.off('change:headline', told);
  };
  // one answer, or several in one message, each with its own buffers; what fills a message up comes last
  const listen = (content, buffers) => {
    let from = 0;
    for (const one of content.several ?? [content]) {
      const done = waiting.get(one.rid),
        mine = (buffers ?? []).slice(from, from + (one.buffers ?? 0));
      from += one.buffers ?? 0;
      if (!done) continue;
      waiting.delete(one.rid);
      done({content: one, buffers: mine}, !content.several);
    }
  };
  model.on('msg:custom', listen);
  const padding = createPadding(),
    batch = [];
  // what one gesture asks goes as one message: every message makes the kernel busy and idle again, and JupyterLab draws
  // its toolbar anew each time
  const flush = () => {
    const messages = batch.splice(0);
    if (messages.length) model.send(messages.length > 1 ? {t: 'several', messages} : messages[0]);
  };
  const request = (message) =>
    new Promise((resolve, reject) => {
      if (lost) {
        reject(new Error('its kernel has gone'));
        return;
      }
      const rid = `${++number}.${Math.random().toString(36).slice(2, 8)}`,
        pad = padding.next(),
        began = performance.now();
      waiting.set(rid, (answer, alone) => {
        if (alone) padding.note(pad, performance.now() - began - (answer.content.ms ?? NaN));
        resolve(answer);
      });
      batch.push({...message, rid, pad});
      if (batch.length === 1) queueMicrotask(flush);
    });
  // a selection is told again where no answer comes: said twice it is the same
  async function select(patch, origin) {
    for (let attempt = 0; attempt < 3; attempt++) {
      let timer;
      const patience = new Promise((resolve) => {
        timer = setTimeout(() => resolve(null), RESEND_MS);
      });
      const answer = await Promise.race([request({t: 'select', patch, origin}), patience]);
      clearTimeout(timer);
      if (answer) return answer.content;
    }
    return null;
  }
  const store = createStore(model.get('selection'), select);
  model.on('change:selection', () => store.adopt(model.get('selection')));
  return (model.nbpLine = {request, flush, store, whenLost, whenTold, padding});
}

const findBokeh = (version) => (window.Bokeh?.version === version ? window.Bokeh : window.Bokeh?.[version]) ?? null;

// Another library's BokehJS of another version may live in the page: ours is taken by its version, never as "Bokeh".
async function loadBokeh(line, version) {
  const key = `__nbp_bokeh_${version}`;
  window[key] ??= (async () => {
    if (findBokeh(version)) return;
    const {buffers} = await line.request({t: 'bokehjs'});
    for (const part of buffers) {
      const url = URL.createObjectURL(new Blob([part], {type: 'text/javascript'}));
      await new Promise((resolve, reject) => {
        const script = document.createElement('script');
        Object.assign(script, {src: url, onload: resolve, onerror: () => reject(new Error('BokehJS could not be loaded'))});
        document.head.append(script);
      });
      URL.revokeObjectURL(url);
    }
  })();
  try {
    await window[key];
  } catch (error) {
    delete window[key];
    throw error;
  }
  return findBokeh(version);
}

// Figures and facts of a dashboard, which the kernel makes while the page loads BokehJS; asked again where nothing comes.
async function begin(line) {
  const asked = [];
  for (;;) {
    asked.push(line.request({t: 'start'}));
    let timer;
    const patience = new Promise((resolve) => {
      timer = setTimeout(() => resolve(null), RESEND_MS);
    });
    const answer = await Promise.race([...asked, patience]);
    clearTimeout(timer);
    if (answer?.content.failed) throw new Error(answer.content.failed);
    if (answer) return answer.content;
  }
}

// The static picture beside the widget is for readers without a kernel: it hides while the live view is there or on its way,
// also where it comes later than that.
function hideStatic(uid) {
  const mark = `.nbp-static-${CSS.escape(uid)}`,
    sheet = document.createElement('style');
  // two rules: a browser that does not know :has() drops the one with it
  sheet.textContent = `${mark} { display: none !important }\n.jp-OutputArea-child:has(${mark}) { display: none !important }`;
  document.head.append(sheet);
  return () => sheet.remove();
}
const STATIC_AFTER_MS = 8000; // then a reader gets the static picture, until the live view is there

export default {
  async render({model, el}) {
    const line = lineTo(model),
      settings = model.get('settings');
    const host = document.createElement('div');
    host.className = 'nbp-host';
    el.append(host);
    const waiting = document.createElement('div');
    waiting.className = 'nbp-waiting';
    waiting.textContent = 'loading the views …';
    host.append(waiting);
    let dispose = () => {},
      gone = false,
      show = hideStatic(settings.uid);
    const late = setTimeout(() => show(), STATIC_AFTER_MS);
    const start = async () => {
      const loading = loadBokeh(line, settings.bokeh),
        drawn = model.get('document');
      loading.catch(() => {}); // told below, by who needs it
      const begun = drawn ? {document: drawn, settings} : await begin(line);
      while (!host.isConnected && !gone) await new Promise((done) => setTimeout(done, 30)); // BokehJS mounts only into the page
      if (gone) return;
      const ranks = settings.page === 'ranks',
        Bokeh = ranks ? await loading : loading; // the dashboard asks for its facts meanwhile
      waiting.remove();
      dispose = await (ranks ? mountRanks : mount)({
        Bokeh,
        el: host,
        document: JSON.parse(begun.document),
        settings: begun.settings,
        transport: line,
        store: line.store,
      });
      if (gone) {
        dispose();
        return;
      }
      show();
      show = hideStatic(settings.uid);
      el.classList.add('nbp-ready');
    };
    start()
      .catch((error) => {
        host.textContent = `The views could not be started: ${error.message}`;
        show();
      })
      .finally(() => clearTimeout(late));
    return () => {
      gone = true;
      clearTimeout(late);
      dispose();
      show();
      el.replaceChildren();
    };
  },
};
