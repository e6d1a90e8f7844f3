# setup
with open("job.py", "w") as job:
    job.write("s = 0\nfor i in range(1_500_000):\n    s += i\n")

# %%profile p
!sleep 0.3
%run job.py
print(s)
