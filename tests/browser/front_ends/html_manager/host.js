// A page that is no Jupyter: ipywidgets' html-manager on a kernel that others use too, as VS Code and Colab have one in
// each output's frame. The address tells where: ?server=…&token=…&kernel=…&code=…&buffers=0 drops all binary buffers.
import {HTMLManager} from '@jupyter-widgets/html-manager';
import * as base from '@jupyter-widgets/base';
import {KernelConnection, ServerConnection} from '@jupyterlab/services';

const anywidget = {};
globalThis.define = (_, make) => Object.assign(anywidget, make(base)); // the package is for RequireJS only
await import('anywidget');

const VIEW = 'application/vnd.jupyter.widget-view+json';
const told = new URL(location.href).searchParams;
const drops = told.get('buffers') === '0';

class Manager extends HTMLManager {
  /** @param {KernelConnection} kernel */
  constructor(kernel) {
    super({loader: async (name) => (name === 'anywidget' ? anywidget : Promise.reject(new Error(`no module ${name}`)))});
    this.kernel = kernel;
    kernel.registerCommTarget(this.comm_target_name, async (comm, message) => {
      await this.handle_comm_open(this.wrapped(comm), message);
    });
  }

  wrapped(comm) {
    const made = new base.shims.services.Comm(comm);
    if (!drops) return made;
    const listen = made.on_msg.bind(made);
    made.on_msg = (callback) => listen((message) => callback({...message, buffers: []}));
    return made;
  }

  async _create_comm(target, id, data, metadata, buffers) {
    const comm = this.kernel.createComm(target, id);
    if (data || metadata) comm.open(data, metadata, buffers);
    return this.wrapped(comm);
  }

  async _get_comm_info() {
    const reply = await this.kernel.requestCommInfo({target_name: this.comm_target_name});
    return reply.content.comms;
  }
}

/** What a cell shows: HTML as it comes, and widgets. */
async function append(data, manager) {
  const box = document.createElement('div');
  document.body.append(box);
  if (data[VIEW]) {
    const model = await manager.get_model(data[VIEW].model_id);
    await manager.display_view(await manager.create_view(model), box);
  } else if (data['text/html']) box.innerHTML = data['text/html'];
}

const serverSettings = ServerConnection.makeSettings({
  baseUrl: told.get('server'),
  wsUrl: told.get('server').replace(/^http/, 'ws'),
  token: told.get('token'),
  appendToken: true,
});
const kernel = new KernelConnection({model: {id: told.get('kernel'), name: 'python3'}, serverSettings, handleComms: true});
const manager = new Manager(kernel);
await kernel.info;
const future = kernel.requestExecute({code: told.get('code')});
future.onIOPub = ({header, content}) => {
  if (header.msg_type === 'display_data' || header.msg_type === 'execute_result') void append(content.data, manager);
  if (header.msg_type === 'error') document.body.append(content.traceback.join('\n'));
};
await future.done;
