# kubesim alone, for deploy/kubesim-nodes.yaml. Build it in the repository's root.
FROM docker.io/library/python:3.11-slim
COPY requirements/run.lock /tmp/run.lock
RUN pip install --no-cache-dir --require-hashes -r /tmp/run.lock && rm /tmp/run.lock \
    && python -c "from hcl2.parser import parser; parser()"
COPY kubesim /opt/kubesim/kubesim
RUN rm -rf /opt/kubesim/kubesim/tests && python -m compileall -q /opt/kubesim
WORKDIR /opt/kubesim
USER 65532
ENTRYPOINT ["python", "-m", "kubesim"]
