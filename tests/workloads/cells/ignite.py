# setup
import torch, torch.nn as nn
from ignite.engine import Events, create_supervised_trainer, create_supervised_evaluator
from ignite.metrics import Accuracy
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 5)); opt = torch.optim.SGD(net.parameters(), 0.05)
ds = torch.utils.data.TensorDataset(torch.randn(640, 64), torch.randint(0, 5, (640,)))
dl = torch.utils.data.DataLoader(ds, 32, shuffle=True)

# %%profile p
trainer = create_supervised_trainer(net, opt, nn.CrossEntropyLoss())
evaluator = create_supervised_evaluator(net, metrics={"acc": Accuracy()})
@trainer.on(Events.EPOCH_COMPLETED)
def check(engine):
    evaluator.run(dl)
trainer.run(dl, max_epochs=2)
print(trainer.state.iteration, evaluator.state.iteration)
