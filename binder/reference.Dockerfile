# What the image of repo2docker is compared with: the same Python, requirements and postBuild, and nothing else.
# It is not called Dockerfile, which repo2docker would take in place of the other files of this folder.
#   docker build -f binder/reference.Dockerfile -t notebook-prof . && docker run -p 8888:8888 notebook-prof
FROM python:3.11-slim
RUN useradd --create-home --uid 1000 jovyan
WORKDIR /home/jovyan
COPY --chown=jovyan . .
RUN pip install --no-cache-dir -r binder/requirements.txt
USER jovyan
RUN timeout 120 bash binder/postBuild
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--port=8888", "notebooks/README.md"]
