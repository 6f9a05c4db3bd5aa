tenants = {
  tenant-a = {
    team       = "vision"
    gpus       = 1
    developers = ["vision-engineers"]
  }

  tenant-b = {
    team       = "speech"
    gpus       = 1
    developers = ["speech-engineers"]
  }
}
