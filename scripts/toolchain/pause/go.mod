module slipway.local/toolchain/pause

go 1.23
