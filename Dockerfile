# An image with the pinned packages of envs/ and the workflow:
#
#   docker build -t pam .
#   docker run --rm -v "$PWD:/work" pam run --configfile mine.yaml
#
# PyTorch's build for CPUs; for a GPU: --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128
FROM python:3.11-slim-bookworm

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# As `make` does it: hashes for all but PyTorch, of which each kind of processor has its own build.
WORKDIR /pam
COPY envs/*.txt envs/
RUN pip install --no-deps --require-hashes --requirement envs/requirements-build.txt \
    && pip install --no-deps --require-hashes --requirement envs/requirements.txt --no-build-isolation \
    && pip install --requirement envs/requirements-torch.txt --extra-index-url "$TORCH_INDEX"

COPY pyproject.toml README.md LICENSE CITATION.cff Snakefile ./
COPY pam pam
COPY workflow workflow
COPY config config
COPY envs envs
COPY profiles profiles
COPY cluster cluster
RUN pip install --no-deps --no-build-isolation .

# Work goes to the folder that is mounted here, in the name of the user who calls.
WORKDIR /work
ENV HOME=/tmp
ENTRYPOINT ["pam"]
CMD ["--help"]
