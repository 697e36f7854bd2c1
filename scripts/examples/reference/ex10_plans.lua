local plans = tide.backends.cuda.cufft_plan_cache
plans[1].max_size = 10                               -- of GPU 1: ids count from 0
print(plans[1].max_size, plans[1].size)
print(plans.max_size)                                -- of the current GPU, unchanged
