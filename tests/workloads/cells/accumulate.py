# setup
import torch, torch.nn as nn
from accelerate import Accelerator
torch.manual_seed(0)
ds = torch.utils.data.TensorDataset(torch.randn(640, 64), torch.randint(0, 5, (640,)))

# %%profile p
acc = Accelerator(gradient_accumulation_steps=4, cpu=True)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 5))
net, opt, dl = acc.prepare(net, torch.optim.AdamW(net.parameters()), torch.utils.data.DataLoader(ds, 16))
updates = 0
for x, y in dl:
    with acc.accumulate(net):
        loss = nn.functional.cross_entropy(net(x), y)
        acc.backward(loss)
        opt.step(); opt.zero_grad()
        updates += acc.sync_gradients
print(updates)
