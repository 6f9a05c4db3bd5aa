# The toolbox of candidates on real clusters (TOOLBOX_IMAGE): what faults/toolbox.py and the briefs of packs count on.
# kubesim/kubelet/images.yaml knows the same image for simulated nodes. `make images` builds it.
FROM registry.k8s.io/kubectl:v1.34.4 AS kubectl
FROM gcr.io/go-containerregistry/crane:v0.20.3 AS crane

# Terraform from HashiCorp's own release, by the checksums of its terraform_1.11.4_SHA256SUMS.
FROM docker.io/library/debian:12-slim AS terraform
ARG TARGETARCH=amd64
ARG TERRAFORM_VERSION=1.11.4
ARG TERRAFORM_SHA256_AMD64=1ce994251c00281d6845f0f268637ba50c0005657eb3cf096b92f753b42ef4dc
ARG TERRAFORM_SHA256_ARM64=a43d1d0da9b9bab214a8305a39db0e40869572594ccf50c416a7756499143633
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates curl unzip \
    && rm -rf /var/lib/apt/lists/*
RUN case "$TARGETARCH" in \
      amd64) sum=$TERRAFORM_SHA256_AMD64 ;; \
      arm64) sum=$TERRAFORM_SHA256_ARM64 ;; \
      *) echo "no checksum of Terraform for $TARGETARCH" >&2; exit 1 ;; \
    esac \
    && zip=terraform_${TERRAFORM_VERSION}_linux_${TARGETARCH}.zip \
    && curl -fsSL -o /tmp/terraform.zip "https://releases.hashicorp.com/terraform/${TERRAFORM_VERSION}/${zip}" \
    && echo "$sum  /tmp/terraform.zip" | sha256sum --check --strict - \
    && unzip -q /tmp/terraform.zip terraform -d /usr/local/bin \
    && rm /tmp/terraform.zip
# The provider of the tenants' code, so that `init` works in a cluster with no way out; Terraform checks its signature.
COPY terraform /code
RUN terraform -chdir=/code/tenants get \
    && terraform -chdir=/code/tenants providers mirror -platform="linux_${TARGETARCH}" /mirror

FROM docker.io/library/debian:12-slim
RUN apt-get update && apt-get install --yes --no-install-recommends \
      bash ca-certificates curl dnsutils file jq less nano netcat-openbsd procps python3 vim-tiny \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s vim.tiny /usr/bin/vim \
    && useradd --uid 1000 --create-home --home-dir /home/toolbox --shell /bin/bash toolbox
COPY --from=kubectl /bin/kubectl /usr/local/bin/kubectl
COPY --from=crane /ko-app/crane /usr/local/bin/crane
COPY --from=terraform /usr/local/bin/terraform /usr/local/bin/terraform
# One of the folders in which Terraform looks by itself for a mirror of providers.
COPY --from=terraform /mirror /usr/local/share/terraform/plugins
ENV HOME=/home/toolbox EDITOR=nano CHECKPOINT_DISABLE=1
USER 1000:1000
WORKDIR /home/toolbox
CMD ["bash"]
