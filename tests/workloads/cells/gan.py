# setup
import torch, torch.nn as nn, time
torch.manual_seed(0)
G = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 784), nn.Tanh())
D = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))
og = torch.optim.Adam(G.parameters(), 2e-4); od = torch.optim.Adam(D.parameters(), 2e-4)
bce = nn.BCEWithLogitsLoss()
real = torch.rand(2560, 784)
dl = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(real), batch_size=64, shuffle=True, drop_last=True)

# %%profile p
td = tg = 0.0
for (x,) in dl:
    t0 = time.perf_counter()
    z = torch.randn(len(x), 64)
    fake = G(z)
    od.zero_grad()
    ld = bce(D(x), torch.ones(len(x), 1)) + bce(D(fake.detach()), torch.zeros(len(x), 1))
    ld.backward(); od.step()
    t1 = time.perf_counter()
    og.zero_grad()
    lg = bce(D(fake), torch.ones(len(x), 1))
    lg.backward(); og.step()
    td += t1 - t0; tg += time.perf_counter() - t1
print(f"D {td:.3f} G {tg:.3f}")
