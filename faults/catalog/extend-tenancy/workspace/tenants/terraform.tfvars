tenants = {
  tenant-a = {
    team       = "vision"
    gpus       = ${parameter.a}
    developers = ["vision-engineers"]
  }

  tenant-b = {
    team       = "speech"
    gpus       = ${parameter.b}
    developers = ["speech-engineers"]
  }
}
