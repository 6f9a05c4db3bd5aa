# The AI workload of tenants in the pairing exercise: a small encoder that serves on port 8000 and makes requests of its own.
# kubesim/kubelet/images.yaml knows the same image for practice clusters. `make images` builds it.
FROM docker.io/pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime
RUN apt-get update && apt-get install --yes --no-install-recommends curl && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 1000 --create-home --home-dir /home/inference inference
COPY --chmod=0755 inference_server.py /usr/local/bin/inference-server
ENV REQUESTS_PER_SECOND=8 PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /home/inference
EXPOSE 8000
ENTRYPOINT ["/usr/local/bin/inference-server"]
