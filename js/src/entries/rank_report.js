// The ranks' report: the file holds figures and table as they were drawn, and the timelines of some ranks.
import {mountRanks} from '../ranks/page.js';
import {createLocalRanks, createLocalTimelines} from '../ranks/timelines.js';
import {inflateJson} from '../report/file/inflate.js';
import {createFileStore, startReport} from '../report/file/start.js';
import {jsonOf, openGiven} from '../report/file/unpack.js';

startReport(async (el) => {
  const given = await inflateJson(jsonOf('nbp-given')),
    settings = jsonOf('nbp-settings'),
    store = createFileStore(),
    timelines = createLocalTimelines(settings.timelines, () => openGiven('nbp-timelines-', store));
  await mountRanks({
    Bokeh: window.Bokeh,
    el,
    document: jsonOf('nbp-document'),
    settings,
    transport: createLocalRanks(given, timelines),
    store,
  });
});
