# docker build -t smrl . && docker run smrl            the demo: SAC on Pendulum with and without reuse
# docker run -v "$PWD/runs:/smrl/runs" smrl .venv/bin/smrl train sac Hopper-v4
FROM python:3.11-slim
RUN apt-get update && apt-get install --no-install-recommends -y g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /smrl
COPY pyproject.toml requirements.lock README.md LICENSE Makefile ./
COPY smrl smrl
RUN make .venv/package
CMD ["make", "demo"]
