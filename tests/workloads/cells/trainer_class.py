# setup
import torch, torch.nn as nn, time
torch.manual_seed(0)
ds = torch.utils.data.TensorDataset(torch.randn(2048, 64), torch.randint(0, 5, (2048,)))

# %%profile p
class Trainer:
    def __init__(self, net, lr):
        self.net, self.opt = net, torch.optim.AdamW(net.parameters(), lr)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 20)
        self.history = []
    def step(self, batch):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step(); self.sched.step()
        return loss.item()
    def fit(self, loader, epochs):
        for _ in range(epochs):
            for batch in loader:
                self.history.append(self.step(batch))
tr = Trainer(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 5)), 1e-3)
tr.fit(torch.utils.data.DataLoader(ds, 64, shuffle=True), 3)
print(len(tr.history))
