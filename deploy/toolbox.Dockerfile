# The toolbox of candidates on real clusters (TOOLBOX_IMAGE): what faults/toolbox.py and the briefs of packs count on.
# kubesim/kubelet/images.yaml knows the same image for simulated nodes. `make images` builds it.
FROM registry.k8s.io/kubectl:v1.34.4 AS kubectl
FROM gcr.io/go-containerregistry/crane:v0.20.3 AS crane
FROM docker.io/hashicorp/terraform:1.11.4 AS terraform
FROM debian:12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends \
      bash ca-certificates curl dnsutils file jq less nano netcat-openbsd procps python3 vim-tiny \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s vim.tiny /usr/bin/vim \
    && useradd --uid 1000 --create-home --home-dir /home/toolbox --shell /bin/bash toolbox
COPY --from=kubectl /bin/kubectl /usr/local/bin/kubectl
COPY --from=crane /ko-app/crane /usr/local/bin/crane
COPY --from=terraform /bin/terraform /usr/local/bin/terraform
ENV HOME=/home/toolbox EDITOR=nano
USER 1000:1000
WORKDIR /home/toolbox
CMD ["bash"]
