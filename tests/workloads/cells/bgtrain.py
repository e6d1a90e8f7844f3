# setup
import torch, torch.nn as nn, threading, time
net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 1)); opt = torch.optim.Adam(net.parameters())
X = torch.randn(128, 256)

# %%profile p
state = {"n": 0}
def train():
    for i in range(100):
        loss = net(X).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        state["n"] += 1
th = threading.Thread(target=train, name="trainer")
th.start()
while th.is_alive():
    time.sleep(0.05)
print(state["n"], "steps")
