// What the cells of a watched notebook took: a model without a view, so the badges are there without a display.
import {CellEvents} from '../editor/cell_events.js';

export default {
  /** @param {{model: import('../widget/line.js').WidgetModel}} given */
  initialize({model}) {
    const events = new CellEvents({manager: model.widget_manager, cells: []});
    model.on('msg:custom', (content) => events.tell(content.cells));
    model.on('comm_live_update', () => events.close()); // the kernel has gone
    model.send({t: 'cells'});
    return () => events.close();
  },
};
